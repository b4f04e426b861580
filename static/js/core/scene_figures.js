// Figures of a complete run, by the names used in a scene's final sentence (`end` in app/scenes/words.*.json). Pure.

import { blockSize } from "./geometry.js";
import { crossing, heldIn } from "./groups.js";
import { unfinished } from "./instances.js";
import { joinText } from "./labels.js";
import { kvTerms } from "./metrics.js";
import { countSequences } from "./state.js";

/** @import {TraceLog} from "./log.js" */

/** @typedef {Record<string, number>} Figures */

/** Bytes of a number in the model's compute type. @type {Record<string, number>} */
const DTYPE_BYTES = { float32: 4, float16: 2, bfloat16: 2 };

/** Return whether every sequence of the run is finished; false before the first. @param {TraceLog} log */
export const isOver = ({ tail }) => countSequences(tail) > 0 && !unfinished(tail);

/**
 * Return the figures of `log` for a scene about sequence `seq`; null if the sequence does not exist yet.
 * @param {TraceLog} log
 * @param {number} seq
 * @returns {Figures | null}
 */
export function sceneFigures(log, seq) {
  const sequence = log.tail.sequences.get(seq);
  return sequence
    ? {
        ...textFigures(log, sequence),
        ...workFigures(log, seq),
        ...cacheFigures(log, sequence),
        ...blockFigures(log),
        ...byteFigures(log),
        ...stateFigures(log, sequence),
        ...draftFigures(log),
      }
    : null;
}

/** @typedef {NonNullable<ReturnType<TraceLog["tail"]["sequences"]["get"]>>} Sequence */

/**
 * Count tokens: of the sequence's `prompt` (and its `words` and Chinese `characters`) and of its final `text`; and the
 * `sequences` of the run.
 * @param {TraceLog} log
 * @param {Sequence} sequence
 * @returns {Figures}
 */
function textFigures({ tail }, { token_bytes: tokens, num_prompt_tokens: prompt }) {
  const promptText = joinText(tokens.slice(0, prompt));
  const count = (/** @type {RegExp} */ pattern) => promptText.match(pattern)?.length ?? 0;
  return {
    prompt,
    words: count(/[\p{L}'’]+/gu),
    characters: count(/\p{Script=Han}/gu),
    text: tokens.length,
    sequences: countSequences(tail),
  };
}

/**
 * Count computed tokens. `computed`: over all steps; `again`: those that the same sequence had computed before;
 * `without`: those for the same outputs if every step computed all tokens so far; `chunks`: steps that computed the
 * sequence's prompt; `most_at_once`: maximum of sequences in one step; `last_keys`: context of the last token.
 * @param {TraceLog} log
 * @param {number} seq
 * @returns {Figures}
 */
function workFigures({ records }, seq) {
  const found = { computed: 0, again: 0, without: 0, chunks: 0, most_at_once: 0, last_keys: 0, steps: 0 };
  /** @type {Map<number, number>} sequence -> end of the positions ever computed */
  const reached = new Map();
  for (const { batch = [], step } of records) {
    found.steps = step;
    found.most_at_once = Math.max(found.most_at_once, batch.length);
    for (const { seq_id, phase, start, token_ids, context_len, samples } of batch) {
      const end = start + token_ids.length;
      const before = reached.get(seq_id) ?? 0;
      found.computed += token_ids.length;
      found.again += Math.max(0, Math.min(end, before) - start);
      if (samples) found.without += context_len;
      if (seq_id === seq && phase === "prefill") found.chunks += 1;
      found.last_keys = context_len;
      reached.set(seq_id, Math.max(before, end));
    }
  }
  return found;
}

/**
 * Count cache operations. `hit`, `hit_blocks`: tokens and blocks found at the sequence's first lookup; `fresh`: the
 * rest of its prompt; `copies`, `preemptions`, `released`: operations in the run; `fragmented`: steps in which it
 * waited although enough blocks were free. For the last of these: `needed` contiguous blocks, free blocks `in_holes`,
 * and the size of the `largest` hole.
 * @param {TraceLog} log
 * @param {Sequence} sequence
 * @returns {Figures}
 */
function cacheFigures({ header, records }, { seq_id, num_prompt_tokens: prompt }) {
  const ops = records.flatMap((record) => record.ops ?? []);
  const count = (/** @type {string} */ type) => ops.filter((op) => op.type === type).length;
  const lookup = ops.find((op) => op.type === "lookup" && op.seq_id === seq_id);
  const waits = ops.flatMap((op) =>
    op.type === "defer" && op.seq_id === seq_id && op.reason === "fragmented" ? [op] : [],
  );
  const last = waits.at(-1);
  const { num_hit_tokens: hit, block_ids } = lookup?.type === "lookup" ? lookup : { num_hit_tokens: 0, block_ids: [] };
  return {
    hit,
    hit_blocks: block_ids.length,
    fresh: prompt - hit,
    prompt_blocks: Math.ceil(prompt / blockSize(header)),
    copies: count("copy"),
    preemptions: count("preempt"),
    released: count("release"),
    fragmented: waits.length,
    needed: last?.needed ?? 0,
    in_holes: last?.num_free ?? 0,
    largest: last?.available ?? 0,
  };
}

/**
 * Count blocks. `held`: maximum read and written by the sequences of one step; `held_full` and `held_windowed`: the
 * same in layers that retain every key, and in those with a window; `most_empty`: maximum of empty slots of one running
 * sequence after a step; `shared`: blocks in several tables just before the first sequence ends; `blocks_of_all`:
 * blocks of the longest text if every key is retained (the last token's is never written); `apart`: blocks of all texts
 * that were not dropped, without sharing; `dropped` and `kept`: numbers of sequences.
 * @param {TraceLog} log
 * @returns {Figures}
 */
function blockFigures(log) {
  const size = blockSize(log.header);
  const found = { held: 0, held_full: 0, held_windowed: 0, most_empty: 0, shared: 0, blocks_of_all: 0, apart: 0 };
  const dropped = new Set();
  const raise = (/** @type {keyof typeof found} */ name, /** @type {number} */ n) =>
    (found[name] = Math.max(found[name], n));
  let ended = false;
  for (const { index, ops = [], batch = [] } of log.records) {
    const state = log.stateAt(index);
    const tables = batch.map((entry) => log.tablesAtCompute(index, entry.seq_id) ?? []);
    const held = log.groups.map((_, group) => new Set(tables.flatMap((table) => heldIn(table[group] ?? []))).size);
    raise(
      "held",
      held.reduce((sum, n) => sum + n, 0),
    );
    log.groups.forEach(({ window }, group) => raise(window === null ? "held_full" : "held_windowed", held[group]));
    for (const id of state.running) {
      const seq = state.sequences.get(id);
      const longest = Math.max(0, ...(seq?.block_tables ?? []).map(({ length }) => length));
      if (seq) raise("most_empty", longest * size - seq.num_computed_tokens);
    }
    ended ||= ops.some((op) => op.type === "finish");
    for (const op of ops) if (op.type === "finish" && op.reason === "dropped") dropped.add(op.seq_id);
    if (!ended) found.shared = state.blocks.filter(({ ref_count }) => ref_count > 1).length;
  }
  for (const [id, { token_bytes }] of log.tail.sequences) {
    const blocks = Math.ceil((token_bytes.length - 1) / size);
    raise("blocks_of_all", blocks);
    if (!dropped.has(id)) found.apart += blocks;
  }
  return { ...found, dropped: dropped.size, kept: log.tail.sequences.size - dropped.size };
}

/**
 * Count tokens of speculative decoding: `drafted`, `accepted`, `taken_back`, and `outputs` of the run.
 * @param {TraceLog} log
 * @returns {Figures}
 */
function draftFigures({ records }) {
  const found = { drafted: 0, accepted: 0, taken_back: 0, outputs: 0 };
  for (const { ops = [], outputs = [] } of records) {
    found.outputs += outputs.length;
    for (const op of ops) {
      if (op.type === "verify") found.drafted += op.num_drafted;
      if (op.type === "verify") found.accepted += op.num_accepted;
      if (op.type === "take_back") found.taken_back += op.num_tokens;
    }
  }
  return found;
}

/**
 * Return the bytes of a token's K and V in all layers: `token_bytes` as stored, `plain_bytes` as the model computes
 * them, and their ratio `times`.
 * @param {TraceLog} log
 * @returns {Figures}
 */
function byteFigures({ header }) {
  const { as_heads, bytes_per_token: token } = kvTerms(header);
  const plain = as_heads * (DTYPE_BYTES[header.model.dtype] ?? 2);
  return { token_bytes: token, plain_bytes: plain, times: Number((plain / token).toFixed(1)) };
}

/**
 * Return bytes for models whose layers have states: `state_bytes`, and `key_bytes` of K and V of all computed tokens;
 * `all_bytes` if every layer had keys, which equals the sum of both at `equal_at` tokens.
 * @param {TraceLog} log
 * @param {Sequence} sequence
 * @returns {Figures}
 */
function stateFigures({ header }, { token_bytes: tokens }) {
  const at = crossing(header);
  const computed = tokens.length - 1;
  return {
    state_bytes: header.model.state_bytes ?? 0,
    key_bytes: computed * header.kv_bytes_per_token,
    all_bytes: computed * (at?.perToken ?? header.kv_bytes_per_token),
    equal_at: at?.tokens ?? 0,
  };
}
