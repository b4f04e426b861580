// The sentence that says what a record did, with its numbers. Facts come from the log alone; words from i18n.

import { labelText, loneLabel, tokenLabels } from "./labels.js";
import { slotOf } from "./metrics.js";

/**
 * `[[key, values], …]`: the sentences of record `index`, the shown sequence first. Names stay sequence ids (`name`,
 * `for`); the caller puts them into words.
 */
export function sentencesOf(log, index, shownSeq) {
  if (index < 0) return [["sentence.start", {}]];
  const record = log.records[index];
  const ops = record.ops ?? [];
  const found = ops.filter((op) => op.type === "submit").map((op) => ["sentence.submit", { name: op.seq_id, n: op.prompt_token_ids.length }]);
  const batch = record.batch ?? [];
  const entry = batch.find((e) => e.seq_id === shownSeq) ?? batch[0];
  for (const op of ops) if (op.type === "preempt" || op.type === "copy") found.push(...eventSentences(op)); // the rare ones first
  const evicted = ops.filter((op) => op.type === "evict").map((op) => op.block_id);
  if (evicted.length) found.push(["sentence.evict", { n: evicted.length, ids: listed(evicted) }]);
  if (entry) found.push(...entrySentences(log, index, record, entry));
  for (const op of ops) if (op.type !== "preempt" && op.type !== "copy") found.push(...eventSentences(op));
  if (batch.length > 1) found.push(["sentence.others", { n: batch.length - 1 }]);
  return found.length ? found : [["sentence.idle", {}]];
}

function entrySentences(log, index, record, entry) {
  const state = log.stateAt(index);
  const seq = state.sequences.get(entry.seq_id);
  const size = state.block_size;
  const table = log.tableAtCompute(index, entry.seq_id) ?? [];
  const count = entry.token_ids.length;
  const end = entry.start + count;
  const ops = record.ops.filter((op) => op.seq_id === entry.seq_id);
  const sentences = [];
  const hit = ops.find((op) => op.type === "lookup" && op.verdict === "hit");
  if (hit) sentences.push(["sentence.hit", { hit: hit.num_hit_tokens, n: hit.num_tokens, blocks: hit.block_ids.length, ids: listed(hit.block_ids) }]);
  if (log.header.engine.strategy === "none" && entry.samples) {
    sentences.push(["sentence.decode_none", { step: record.step, n: count, name: entry.seq_id }]);
  } else if (entry.phase === "prefill") {
    const ids = table.slice(Math.floor(entry.start / size), Math.ceil(end / size));
    const resumed = seq.num_preemptions > 0;
    const key = !entry.samples ? "sentence.chunk" : resumed ? "sentence.resumed" : "sentence.prefill";
    const values = { step: record.step, n: count, name: entry.seq_id, from: entry.start, to: end - 1 };
    sentences.push([key, { ...values, blocks: ids.length, ids: listed(ids) }]);
  } else {
    const place = slotOf(table, size, end - 1);
    const widest = Math.max(...log.header.model.sliding_windows.map((window) => window ?? Infinity));
    const keys = Math.min(entry.context_len, widest); // what the layer that sees farthest read
    sentences.push([
      "sentence.decode",
      {
        step: record.step,
        token: labelText(tokenLabels(seq.token_bytes)[end - 1]),
        keys,
        blocks: Math.floor((end - 1) / size) - Math.floor((entry.context_len - keys) / size) + 1,
        block: place?.block ?? "–",
        slot: place?.offset ?? "–",
      },
    ]);
  }
  const lookup = ops.find((op) => op.type === "lookup" && op.verdict !== "hit");
  if (lookup && log.header.engine.strategy === "paged")
    sentences.push([`sentence.lookup.${lookup.verdict}`, { n: lookup.num_tokens, full: Math.floor((lookup.num_tokens - 1) / size), size }]);
  const output = record.outputs?.find((o) => o.seq_id === entry.seq_id);
  if (output) {
    const last = ops.some((op) => op.type === "finish");
    const p = Math.exp(output.logprob);
    const token = labelText(tokenLabels(seq.token_bytes)[end] ?? loneLabel(output.token_bytes));
    sentences.push([last ? "sentence.sampled_last" : "sentence.sampled", { token, p: p.toFixed(p < 0.01 ? 4 : 2) }]);
  }
  return sentences;
}

function eventSentences(op) {
  if (op.type === "preempt")
    return [["sentence.preempt", { name: op.seq_id, for: op.for_seq_id, n: op.num_computed_tokens }]];
  if (op.type === "defer")
    return [[`sentence.defer.${op.reason}`, { name: op.seq_id, needed: op.needed, available: op.available }]];
  if (op.type === "finish") return [[`sentence.finish.${op.reason}`, { name: op.seq_id }]];
  if (op.type === "copy") return [["sentence.copy", { src: op.src, dst: op.dst }]];
  return [];
}

function listed(ids) {
  return ids.length > 6 ? `${ids.slice(0, 5).join(", ")}, …` : ids.join(", ");
}
