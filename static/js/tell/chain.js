// The links of a provenance chain in words. Values come from core/provenance.js; here they only get their names.

import { labelText } from "../core/labels.js";
import { inLayers, keysText, layersText } from "./groups.js";
import { sequenceName as name, operationName, tell, tellEntry } from "./operations.js";
import { bytesText, grouped, probabilityText, t } from "./words.js";

const at = (link) => t("chain.at", { token: labelText(link.label), position: link.position });

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The first bytes of a hash, as hexadecimal. */
export function hashText(hash) {
  return Array.from(hash.slice(0, 3), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * A link in words: `{name, term, value, second, lines}`; `value` and `second` are the short form, `lines` sentences with the
 * numbers. A link without `value` has no short form. `term` names an entry of the glossary, or is null.
 */
export function wordsOf(link) {
  const words = WORDS[link.kind](link);
  const [first, ...rest] = words.lines;
  return link.layers && first && link.kind !== "released"
    ? { ...words, lines: [inLayers(link.layers, first), ...rest] }
    : words;
}

const WORDS = {
  query: (l) => ({
    name: t("chain.query"),
    term: "query",
    value: at(l),
    second: `L${l.layer} · H${l.head}`,
    lines: [
      t("chain.query.text", {
        token: labelText(l.label),
        position: l.position,
        name: name(l.seq),
        layer: l.layer,
        head: l.head,
      }),
    ],
  }),
  weight: (l) => ({
    name: t("chain.weight"),
    term: null,
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
  key: (l) => ({
    name: t("chain.key"),
    term: "key",
    value: at(l),
    second: `L${l.layer} · H${l.kv_head}`,
    lines: [
      t("chain.key.text", {
        token: labelText(l.label),
        position: l.position,
        name: name(l.seq),
        layer: l.layer,
        head: l.kv_head,
      }),
    ],
  }),
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
  written: (l) => ({
    name: t("chain.written"),
    term: null,
    value: t("chain.record", { record: l.go + 1 }),
    second: t("chain.by", { name: name(l.seq) }),
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
    term: null,
    value: t("chain.record", { record: l.go + 1 }),
    second: t(`op.allocate.reason.${l.why}.chain`),
    lines: [
      tell(l.parts, "short"),
      tell(l.parts.slice(1), "long"),
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
    value: t("chain.record", { record: l.go + 1 }),
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
  earlier: (l) => ({ name: t("chain.earlier"), term: null, lines: [t("chain.earlier.text", { name: name(l.seq) })] }),
  life: () => ({ name: t("chain.life"), term: null, lines: [] }),
  bytes: (l) => ({
    name: t("chain.bytes"),
    term: "kv_cache",
    value: bytesText(l.bytes),
    second: t("chain.bytes.note", { layers: grouped(l.num_layers) }),
    lines: [
      t(l.scale_bytes ? "chain.bytes.scaled" : "chain.bytes.text", {
        layers: l.num_layers,
        heads: l.num_kv_heads,
        d: l.head_dim,
        dv: l.v_head_dim,
        size: l.element_bytes,
        scale: l.scale_bytes,
        token: grouped(l.bytes_per_token),
      }),
      t("chain.bytes.slots", {
        slots: grouped(l.slots),
        token: grouped(l.bytes_per_token),
        bytes: grouped(l.bytes),
        layer: grouped(l.per_layer),
      }),
    ],
  }),
  operation: (l) => ({
    name: t("chain.operation"),
    term: null,
    value: operationName(l.op.type),
    second: t("chain.record", { record: l.go + 1 }),
    lines: [l.told ? tellEntry(l.told) : "", factsOf(l.op), t("chain.operation.text", { at: l.at + 1, of: l.of })],
  }),
  given: (l) => ({
    name: t("chain.given"),
    term: null,
    lines: [t("chain.given.text", { name: name(l.seq), why: t(`op.${l.type}.reason.${l.why}.chain`) })],
  }),
  request: (l) => ({
    name: t("chain.request"),
    term: null,
    value: l.request_id,
    second: t("chain.record", { record: l.go + 1 }),
    lines: [t("chain.request.text", { request: l.request_id, prompt: l.num_prompt_tokens, max: l.max_tokens })],
  }),
  sequence: (l) => ({
    name: t("chain.sequence"),
    term: null,
    value: name(l.seq),
    second: t(`status.${l.status}`),
    lines: [
      t("chain.sequence.text", { status: t(`status.${l.status}`), computed: l.num_computed_tokens, n: l.num_tokens }),
    ],
  }),
  lookup: (l) => ({
    name: t("chain.lookup"),
    term: "prefix_cache",
    value: t("chain.record", { record: l.go + 1 }),
    second: t(`op.lookup.verdict.${l.verdict}.chain`),
    lines: [
      t("chain.lookup.text", {
        hit: l.num_hit_tokens,
        n: l.num_tokens,
        verdict: t(`op.lookup.verdict.${l.verdict}.chain`),
      }),
    ],
  }),
  blocks: (l) => ({
    name: t("chain.blocks"),
    term: "block_table",
    value: l.blocks.length,
    second: "",
    lines: [t("chain.blocks.text", { n: l.blocks.length, shared: l.shared.length })],
  }),
  figure: (l) => ({
    name: t(`chain.figure.${l.name}`),
    term: l.name === "waste" ? "waste" : "kv_cache",
    value: bytesText(l.bytes),
    second: `${grouped(l.bytes)} B`,
    lines:
      l.terms.length > 1
        ? l.terms.map((term) =>
            t("group.figure", {
              layers: sentence(layersText(term.layers)),
              slots: grouped(term.slots),
              token: grouped(term.per_token),
              bytes: grouped(term.bytes),
            }),
          )
        : [oneFigure(l)],
  }),
  part: (l) => ({
    name: name(l.seq),
    term: null,
    lines: [
      t("chain.part.text", {
        slots: grouped(l.slots),
        token: grouped(l.per_token),
        bytes: grouped(l.bytes),
        n: l.num_blocks,
      }),
    ],
  }),
  contiguous: contiguousWords,
};

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

function blockWords(l) {
  const lines = [
    l.ref_count > 0
      ? t("chain.block.held", { n: l.ref_count, filled: l.filled, size: l.size })
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

function contiguousWords(l) {
  const n = l.requests.length;
  const bytes = (slots) => grouped(Math.round(slots * l.per_token));
  const short = (slots) => grouped(Number(slots.toFixed(1))); // the bytes of several pools need not be whole slots
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

export const percentText = (share) => `${(100 * share).toFixed(1)}\u2009%`;

const exact = (weight) => String(Number(weight.toPrecision(4)));

const HIDDEN = new Set(["type", "prompt_token_ids", "prompt_token_bytes", "token_ids", "sampling", "detail"]);

/** The fields of an operation as the log has them. */
function factsOf(op) {
  const shown = (value) =>
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
