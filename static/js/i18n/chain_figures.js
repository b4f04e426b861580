// Links of a provenance chain to figures, in words: bytes, their parts, transfers, other schemes of reservation.

import { labelText } from "../core/labels.js";
import { layersText } from "./groups.js";
import { sequenceName } from "./operations.js";
import { bytesText, grouped, percentText, secondsText, t } from "./words.js";

/** @import {Words} from "./chain.js" */

/**
 * @template {import("../core/provenance/types.js").LinkKind} K
 * @typedef {import("../core/provenance/types.js").LinkOf<K>} LinkOf
 */

/** Return a text with its first letter capitalized. @param {string} text */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** @type {{[K in "bytes" | "state" | "moved" | "figure" | "part" | "contiguous"]: (link: LinkOf<K>) => Words}} */
export const FIGURES = {
  bytes: (l) => ({
    name: t("chain.bytes"),
    term: "kv_cache",
    value: bytesText(l.bytes),
    second: t(l.latent_dim ? "chain.bytes.note.latent" : "chain.bytes.note", { layers: grouped(l.num_layers) }),
    lines: [
      ...(l.kinds.length > 1
        ? []
        : [
            t(l.latent_dim ? "chain.bytes.latent" : l.scale_bytes ? "chain.bytes.scaled" : "chain.bytes.text", {
              latent: l.latent_dim,
              expanded: grouped(l.expanded_bytes),
              layers: l.num_layers,
              heads: l.num_kv_heads,
              d: l.head_dim,
              dv: l.v_head_dim,
              size: l.element_bytes,
              scale: l.scale_bytes,
              token: grouped(l.bytes_per_token),
            }),
          ]),
      t("chain.bytes.slots", {
        slots: grouped(l.slots),
        token: grouped(l.bytes_per_token),
        bytes: grouped(l.bytes),
        layer: grouped(l.per_layer),
      }),
    ],
  }),
  state: (l) => ({
    name: t("chain.bytes"),
    term: "kv_cache",
    value: bytesText(l.bytes),
    second: t("group.short.state"),
    lines: [t("chain.part.states", { slots: l.states, token: grouped(l.each), bytes: grouped(l.bytes) })],
  }),
  moved: (l) => ({
    name: t("op.receive.chain"),
    value: bytesText(l.bytes),
    second: t("chain.record", { record: (l.go ?? 0) + 1 }),
    lines: [
      t(l.src === null ? "chain.loaded.instance" : "chain.moved", {
        token: labelText(l.label),
        ...{
          position: l.position,
          block: l.src,
          from: l.from,
          to: l.to,
          link: l.link,
          seconds: secondsText(l.seconds),
        },
      }),
    ],
  }),
  figure: (l) => ({
    name: t(`chain.figure.${l.name}`),
    term: l.name === "waste" ? "waste" : "kv_cache",
    value: bytesText(l.bytes),
    second: `${grouped(l.bytes)} B`,
    lines:
      l.terms.length > 1
        ? l.terms.map((term) =>
            t(term.of_states ? "group.figure_states" : "group.figure", {
              layers: sentence(layersText(term.layers)),
              slots: grouped(term.slots),
              token: grouped(term.per_token),
              bytes: grouped(term.bytes),
            }),
          )
        : [oneFigure(l)],
  }),
  part: (l) => ({
    name: sequenceName(l.seq),
    lines: [
      t(l.of_states ? "chain.part.states" : "chain.part.text", {
        slots: grouped(l.slots),
        token: grouped(l.per_token),
        bytes: grouped(l.bytes),
        n: l.num_blocks,
      }),
    ],
  }),
  contiguous: contiguousWords,
};

/** @param {LinkOf<"figure">} l */
const oneFigure = (l) =>
  t(`chain.figure.${l.name}.text`, {
    slots: grouped(l.slots),
    token: grouped(l.per_token),
    bytes: grouped(l.bytes),
    held: l.blocks_held,
    cached: l.blocks_cached,
    free: l.blocks_free,
    size: l.block_size,
  });

/** @param {LinkOf<"contiguous">} l @returns {Words} */
function contiguousWords(l) {
  const n = l.requests.length;
  const bytes = (/** @type {number} */ slots) => grouped(Math.round(slots * l.per_token));
  // bytes of several pools may be a fractional number of slots
  const short = (/** @type {number} */ slots) => grouped(Number(slots.toFixed(1)));
  return {
    name: t("chain.contiguous"),
    term: "waste",
    value: bytesText(l.contiguous_slots * l.per_token),
    second: `${n} · ${l.slots_each}`,
    lines: [
      t("chain.contiguous.text", {
        n,
        each: l.slots_each,
        token: grouped(l.per_token),
        bytes: bytes(l.contiguous_slots),
      }),
      n
        ? t("chain.contiguous.paged", {
            size: l.block_size,
            slots: short(l.paged_slots),
            bytes: bytes(l.paged_slots),
            ratio: percentText(l.paged_slots / l.contiguous_slots),
          })
        : "",
      t("chain.contiguous.limit", { slots: grouped(l.limit_slots), bytes: bytes(l.limit_slots) }),
      t("chain.contiguous.fit", { pool: short(l.pool_slots), each: l.slots_each, fit: l.fit, unfit: l.unfit, n }),
      l.groups > 1 ? t("group.contiguous") : "",
    ],
  };
}
