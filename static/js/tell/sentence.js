// The sentence that says what a record did, with its numbers. Facts come from the log alone; words from i18n.

import { visibleKeys } from "../core/attention.js";
import { heldIn, policyOf } from "../core/groups.js";
import { labelText, loneLabel, tokenLabels } from "../core/labels.js";
import { slotOf } from "../core/metrics.js";
import { sampledText } from "../core/operations.js";

/**
 * `[[key, values], …]`: the sentences of record `index`, the shown sequence first. Names stay sequence ids (`name`,
 * `for`); the caller puts them into words.
 */
export function sentencesOf(log, index, shownSeq) {
  if (index < 0) return [["sentence.start", {}]];
  const record = log.records[index];
  const ops = record.ops ?? [];
  const found = ops
    .filter((op) => op.type === "submit")
    .map((op) => ["sentence.submit", { name: op.seq_id, n: op.prompt_token_ids.length }]);
  const batch = record.batch ?? [];
  const entry = batch.find((e) => e.seq_id === shownSeq) ?? batch[0];
  for (const op of ops) if (RARE[op.type]) found.push(RARE[op.type](op));
  const evicted = ops.filter((op) => op.type === "evict").map((op) => op.block_id);
  if (evicted.length) found.push(["sentence.evict", { n: evicted.length, ids: listed(evicted) }]);
  const back = ops.filter((op) => op.type === "swap_in");
  if (back.length) found.push(["sentence.swap_in", { name: back[0].seq_id, n: back.length }]);
  if (entry) found.push(...entrySentences(log, index, record, entry));
  for (const op of ops) {
    if (op.type === "defer") found.push(deferred(op));
    if (op.type === "finish") found.push(finished(op));
    if (op.type === "rank") found.push(["sentence.rank", { n: op.seq_ids.length, returned: op.num_returned }]);
  }
  if (batch.length > 1) found.push(["sentence.others", { n: batch.length - 1 }]);
  return found.length ? found : [["sentence.idle", {}]];
}

/** The rare operations are said first. */
const RARE = {
  preempt: preempted,
  fork: (op) => ["sentence.fork", { name: op.seq_id, for: op.parent_seq_id }],
  copy: (op) => ["sentence.copy", { src: op.src, dst: op.dst }],
  choose: (op) => [
    "sentence.choose",
    { name: op.seq_id, position: op.position, token: labelText(loneLabel(op.token_bytes)) },
  ],
  adjust: (op) => ["sentence.adjust", { request: op.request_id }],
};

function entrySentences(log, index, record, entry) {
  const state = log.stateAt(index);
  const seq = state.sequences.get(entry.seq_id);
  const size = state.block_size;
  const tables = log.tablesAtCompute(index, entry.seq_id) ?? [];
  const table = tables[0] ?? []; // of the layers that see most
  const count = entry.token_ids.length;
  const end = entry.start + count;
  const ops = record.ops.filter((op) => op.seq_id === entry.seq_id);
  const sentences = [];
  const lookup = ops.find((op) => op.type === "lookup");
  if (lookup?.verdict === "hit") sentences.push(...lookedUp(lookup, log));
  if (log.header.engine.strategy === "none" && entry.samples) {
    sentences.push(["sentence.decode_none", { step: record.step, n: count, name: entry.seq_id }]);
  } else if (entry.phase === "prefill") {
    const ids = table.slice(Math.floor(entry.start / size), Math.ceil(end / size));
    const resumed = seq.num_preemptions > 0;
    const key = !entry.samples ? "sentence.chunk" : resumed ? "sentence.resumed" : "sentence.prefill";
    const values = { step: record.step, n: count, name: entry.seq_id, from: entry.start, to: end - 1 };
    sentences.push(
      [key, { ...values, blocks: ids.length, ids: listed(ids) }],
      ...alsoBlocks(log, tables, entry.start, end),
    );
  } else {
    const place = slotOf(table, size, end - 1);
    const keys = keysRead(log, entry.context_len);
    sentences.push([
      "sentence.decode",
      {
        step: record.step,
        token: labelText(tokenLabels(seq.token_bytes)[end - 1]),
        keys,
        blocks: blocksRead(log, entry.context_len),
        block: place?.block ?? "–",
        slot: place?.offset ?? "–",
      },
    ]);
    for (const [group, place] of otherPlaces(log, tables, end - 1)) {
      const seen = keysRead(log, entry.context_len, group.layers);
      sentences.push([
        "group.also_decode",
        {
          layers: group.layers,
          keys: seen,
          blocks: blocksRead(log, entry.context_len, group.layers),
          block: place.block,
          slot: place.offset,
        },
      ]);
    }
  }
  if (lookup && lookup.verdict !== "hit" && log.header.engine.strategy === "paged")
    sentences.push(...lookedUp(lookup, log));
  const output = record.outputs?.find((o) => o.seq_id === entry.seq_id);
  if (output) {
    const last = ops.some((op) => op.type === "finish");
    const token = labelText(tokenLabels(seq.token_bytes)[end] ?? loneLabel(output.token_bytes));
    const overruled = ops.find((op) => op.type === "sample" && (op.sampled_token_id ?? null) !== null);
    sentences.push([
      last ? "sentence.sampled_last" : "sentence.sampled",
      { token, p: probability(Math.exp(output.logprob)) },
    ]);
    if (overruled) sentences.push(["sentence.overruled", { token: sampledText(record, overruled) }]);
  }
  return sentences;
}

/** The block groups after the first that have a slot for `position`: [[group, place], …]. */
function otherPlaces(log, tables, position) {
  const places = tables.map((table) => slotOf(table, log.header.engine.block_size, position));
  return places.flatMap((place, at) => (at && place ? [[log.groups[at], place]] : []));
}

/** Where the key and value of `position` went in the block groups after the first. */
export function alsoSlot(log, tables, position) {
  return otherPlaces(log, tables, position).map(([{ layers }, place]) => [
    "group.also",
    { layers, block: place.block, slot: place.offset },
  ]);
}

/** The same of the positions [start, end). */
export function alsoBlocks(log, tables, start, end) {
  const size = log.header.engine.block_size;
  const parts = tables.map((table) => heldIn(table.slice(Math.floor(start / size), Math.ceil(end / size))));
  return parts.flatMap((ids, group) =>
    group ? [["group.also_blocks", { layers: log.groups[group].layers, n: ids.length, ids: listed(ids) }]] : [],
  );
}

/** What the prefix cache found for a sequence, and why its hits end where they do. */
export function lookedUp(op, log) {
  const size = log.header.engine.block_size;
  const values = {
    hit: op.num_hit_tokens,
    n: op.num_tokens,
    blocks: op.block_ids.length,
    ids: listed(op.block_ids),
    full: Math.floor((op.num_tokens - 1) / size),
    size,
  };
  const found = [[op.verdict === "hit" ? "sentence.hit" : `sentence.lookup.${op.verdict}`, values]];
  if (op.reason)
    found.push([
      `sentence.why.${op.reason}`,
      {
        name: op.closest_seq_id,
        shared: op.num_shared_tokens,
        size,
        lost: op.lost_block_id,
        record: (op.evicted_in ?? 0) + 1,
        for: op.evicted_for,
      },
    ]);
  return found;
}

export function preempted(op) {
  const values = {
    name: op.seq_id,
    for: op.for_seq_id,
    n: op.num_computed_tokens,
    blocks: op.num_blocks ?? 0,
    kept: op.num_kept_tokens ?? 0,
  };
  if (op.mode === "swap") return ["sentence.preempt.swap", values];
  if (values.kept) return ["sentence.preempt.kept", { ...values, lost: op.num_recompute_tokens }];
  return ["sentence.preempt", values];
}

export const deferred = (op) => [
  `sentence.defer.${op.reason}`,
  { name: op.seq_id, needed: op.needed, available: op.available },
];

export const finished = (op) => [`sentence.finish.${op.reason}`, { name: op.seq_id }];

/** Keys that a query with `context` tokens up to and with itself reads, in that of `layers` (null: of all) that sees farthest. */
export function keysRead(log, context, layers = null) {
  const { model, engine } = log.header;
  const seen = (layers ?? [...model.sliding_windows.keys()]).map((layer) => {
    const own = model.sliding_windows[layer] ?? Infinity;
    const { window, sinks } = policyOf(engine, layer);
    return own <= window ? own : window + sinks;
  });
  return Math.min(context, Math.max(...seen));
}

/** Logical blocks in which those keys lie: the window's, and the sinks' where they are others. */
export function blocksRead(log, context, layers = null) {
  const all = layers ?? [...log.header.model.sliding_windows.keys()];
  const farthest = all.reduce((best, layer) =>
    keysRead(log, context, [layer]) > keysRead(log, context, [best]) ? layer : best,
  );
  return new Set(
    visibleKeys(log.header, farthest, context - 1).map((position) =>
      Math.floor(position / log.header.engine.block_size),
    ),
  ).size;
}

/** A probability in words: two decimals, four where that would be 0.00. */
export const probability = (p) => p.toFixed(p < 0.01 ? 4 : 2);

export function listed(ids) {
  return ids.length > 6 ? `${ids.slice(0, 5).join(", ")}, …` : ids.join(", ");
}
