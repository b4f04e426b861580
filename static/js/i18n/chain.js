// Links of a provenance chain in words. The values come from core/provenance.js.

import { labelText } from "../core/labels.js";
import { FIGURES, sentence } from "./chain_figures.js";
import { inLayers, keysText, layersText } from "./groups.js";
import { entryText, hashText, messagesText, sequenceName as name, operationName } from "./operations.js";
import { probabilityText, t } from "./words.js";

/** @import {LinkKind} from "../core/provenance/types.js" */

/** Return the name of the record that a link leads to, counted from 1. @param {{go?: number}} link */
const recordName = ({ go = 0 }) => t("chain.record", { record: go + 1 });

/** @param {{label: import("../core/labels.js").Label, position: number}} link */
const at = (link) => t("chain.at", { token: labelText(link.label), position: link.position });

/**
 * A link in words. `value` and `second` are the short form, `lines` sentences with the numbers; a link without `value`
 * has no short form. `term` is a glossary entry.
 * @typedef {{name: string, term?: string, value?: string | number | number[], second?: string, lines: string[]}}
 *   Words
 */
/**
 * @template {LinkKind} K
 * @typedef {import("../core/provenance/types.js").LinkOf<K>} LinkOf
 */

/** @param {import("../core/provenance/types.js").Link} link @returns {Words} */
export function wordsOf(link) {
  const render = /** @type {(link: any) => Words} the entry of its kind */ (WORDS[link.kind]);
  const words = render(link);
  const [first, ...rest] = words.lines;
  return link.layers && first && link.kind !== "released"
    ? { ...words, lines: [inLayers(link.layers, first), ...rest] }
    : words;
}

/** @param {LinkOf<"query"> | LinkOf<"key">} link @param {number} head @param {string} text */
const vectorWords = (link, head, text) => ({
  value: at(link),
  second: `L${link.layer} · H${head}`,
  lines: [
    t(text, { token: labelText(link.label), position: link.position, name: name(link.seq), layer: link.layer, head }),
  ],
});

/** @type {{[K in LinkKind]: (link: LinkOf<K>) => Words}} */
const WORDS = {
  ...FIGURES,
  query: (l) => ({ name: t("chain.query"), term: "query", ...vectorWords(l, l.head, "chain.query.text") }),
  weight: (l) => ({
    name: t("chain.weight"),
    value: l.value === null ? "–" : probabilityText(l.value),
    second: `L${l.layer} · H${l.head}`,
    lines: [
      l.unseen
        ? t("chain.weight.unseen", { layer: l.layer })
        : l.value === null
          ? t("chain.weight.none")
          : t("chain.weight.text", { weight: exact(l.value), rank: l.rank, of: l.of }),
    ],
  }),
  key: (l) => ({ name: t("chain.key"), term: "key", ...vectorWords(l, l.kv_head, "chain.key.text") }),
  nowhere: (l) => ({
    name: t("chain.slot"),
    term: "slot",
    lines: [t(!l.waits ? "chain.gone" : l.sampled ? "chain.unwritten" : "chain.uncomputed")],
  }),
  released: (l) => ({
    name: t("op.release.chain"),
    term: "block_group",
    lines: [
      sentence(
        t("group.released", {
          layers: layersText(l.layers),
          keys: keysText(l),
          kept: sentence(layersText(l.kept)),
          block: l.block,
        }),
      ),
    ],
  }),
  slot: (l) => ({
    name: t("chain.slot"),
    term: "slot",
    value: l.slot,
    second: t("chain.slot.formula", l),
    lines: [t("chain.slot.text", l)],
  }),
  block: blockWords,
  table: (l) => ({
    name: t("chain.table"),
    term: "block_table",
    value: `[${l.logical}] → ${l.block}`,
    second: name(l.seq),
    lines: [t(l.held ? "chain.table.text" : "chain.table.past", { ...l, name: name(l.seq) })],
  }),
  owners: (l) => ({
    name: t("chain.owners"),
    term: "ref_count",
    value: l.owners.map((o) => o.seq),
    second: t("chain.ref_count", { n: l.ref_count }),
    lines: [t(l.owners.length > 1 ? "chain.owners.many" : "chain.owners.one", { n: l.owners.length })],
  }),
  loaded: (l) => ({
    name: t("op.load.chain"),
    term: "offload",
    value: recordName(l),
    second: t(`medium.${l.medium}`),
    lines: [
      t(`chain.loaded.${l.here ? "here" : "elsewhere"}`, {
        token: labelText(l.label),
        position: l.position,
        medium: t(`medium.${l.medium}`),
      }),
    ],
  }),
  written: (l) => ({
    name: t("chain.written"),
    value: recordName(l),
    second: t("chain.by", { name: l.instance ? `${name(l.seq)}, ${l.instance}` : name(l.seq) }),
    lines: [
      t(l.holds ? "chain.written.text" : "chain.written.past", {
        token: labelText(l.label),
        position: l.position,
        name: name(l.seq),
      }),
      l.copied ? t("chain.written.copied") : "",
    ],
  }),
  decision: (l) => ({
    name: t("chain.decision"),
    value: recordName(l),
    second: t(`op.allocate.reason.${l.why}.chain`),
    lines: [
      messagesText(l.parts, "short"),
      messagesText(l.parts.slice(1), "long"),
      t("chain.decision.request", { request: l.request_id }),
      l.evicted ? t("chain.took", { hash: hashText(l.evicted) }) : "",
    ],
  }),
  cached: (l) => ({
    name: t("chain.cached"),
    term: "block_hash",
    lines: [t("chain.cached.text", { hash: hashText(l.hash), name: name(l.seq) })],
  }),
  freed: (l) => ({
    name: t("chain.freed"),
    term: "free_queue",
    value: recordName(l),
    second: t("chain.by", { name: name(l.seq) }),
    lines: [
      t("chain.freed.text", {
        name: name(l.seq),
        end: t(`op.${l.type}.to.${l.to ?? "none"}.chain`),
        why: t(`op.${l.type}.reason.${l.why}.chain`),
      }),
    ],
  }),
  evicted: (l) => ({
    name: t("chain.evicted"),
    term: "block_hash",
    lines: [t("chain.evicted.text", { hash: hashText(l.hash) })],
  }),
  earlier: (l) => ({ name: t("chain.earlier"), lines: [t("chain.earlier.text", { name: name(l.seq) })] }),
  life: () => ({ name: t("chain.life"), lines: [] }),
  operation: (l) => ({
    name: t("chain.operation"),
    value: operationName(l.op.type),
    second: recordName(l),
    lines: [l.entry ? entryText(l.entry) : "", factsOf(l.op), t("chain.operation.text", { at: l.at + 1, of: l.of })],
  }),
  given: (l) => ({
    name: t("chain.given"),
    lines: [t("chain.given.text", { name: name(l.seq), why: t(`op.${l.type}.reason.${l.why}.chain`) })],
  }),
  request: (l) => ({
    name: t("chain.request"),
    value: l.request_id,
    second: recordName(l),
    lines: [t("chain.request.text", { request: l.request_id, prompt: l.num_prompt_tokens, max: l.max_tokens })],
  }),
  sequence: (l) => ({
    name: t("chain.sequence"),
    value: name(l.seq),
    second: t(`status.${l.status}`),
    lines: [
      t("chain.sequence.text", { status: t(`status.${l.status}`), computed: l.num_computed_tokens, n: l.num_tokens }),
    ],
  }),
  lookup: (l) => ({
    name: t("chain.lookup"),
    term: "prefix_cache",
    value: recordName(l),
    second: t(`op.lookup.verdict.${l.verdict}.chain`),
    lines: [
      t("chain.lookup.text", {
        hit: l.num_hit_tokens,
        n: l.num_tokens,
        verdict: t(`op.lookup.verdict.${l.verdict}.chain`),
      }),
    ],
  }),
  outside: (l) => ({
    name: t("op.lookup_external.chain"),
    term: "offload",
    value: recordName(l),
    second: t(`op.lookup_external.verdict.${l.verdict}.chain`),
    lines: [messagesText(l.parts, "long")],
  }),
  blocks: (l) => ({
    name: t("chain.blocks"),
    term: "block_table",
    value: l.blocks.length,
    second: "",
    lines: [t("chain.blocks.text", { n: l.blocks.length, shared: l.shared.length })],
  }),
};

/** @param {LinkOf<"block">} l @returns {Words} */
function blockWords(l) {
  const lines = [
    l.ref_count > 0
      ? t(l.size ? "chain.block.held" : "chain.block.state", { n: l.ref_count, filled: l.filled, size: l.size })
      : t(l.hash ? "chain.block.cached" : "chain.block.free", { place: l.place }),
    l.hash ? t("chain.hash", { hash: hashText(l.hash) }) : "",
  ];
  return {
    name: t("chain.block"),
    term: "block",
    value: l.block,
    second: l.hash ? `# ${hashText(l.hash)}` : t("chain.no_hash"),
    lines,
  };
}

/** @param {number} weight */
const exact = (weight) => String(Number(weight.toPrecision(4)));

const HIDDEN = new Set(["type", "prompt_token_ids", "prompt_token_bytes", "token_ids", "sampling", "detail"]);

/** Return the fields of an operation as in the log. @param {import("../core/trace.js").Op} op */
function factsOf(op) {
  const shown = (/** @type {unknown} */ value) =>
    value instanceof Uint8Array
      ? hashText(value)
      : Array.isArray(value)
        ? `[${value.slice(0, 12).join(", ")}${value.length > 12 ? ", …" : ""}]`
        : String(value);
  return Object.entries(op)
    .filter(([key, value]) => !HIDDEN.has(key) && value !== null && value !== undefined && value !== "")
    .map(([key, value]) => `${key} ${shown(value)}`)
    .join(" · ");
}
