// Content of the opening film, from two recordings. In the first, request A runs alone, then B shares its prefix and C
// waits; the second is A without a cache. Pure: every number of the film comes from these logs.

import { vectorAt } from "./attention.js";
import { outputIn } from "./drafts.js";
import { loneLabel } from "./labels.js";
import { kvHeadOf } from "./shape.js";
import { MIN_KEYS, widestRow } from "./wide_rows.js";

/** @import {TraceLog} from "./log.js" */
/** @import {Defer} from "./trace.js" */

/**
 * @typedef {{index: number, layer: number, head: number, query: number, weights: Float32Array}} QueryAttention
 *   `weights`: of the keys from position 0 to the query's own
 * @typedef {{token_id: number, text: string, p: number}} Word a candidate with its probability
 * @typedef {{id: number, table: number[]}} Holder a sequence and its block table
 * @typedef {{index: number, a: Holder, b: Holder, c: number, shared: number[], needed: number, available: number}}
 *   Serving `shared`: blocks in both tables; blocks that C needs and blocks that are available
 * @typedef {object} Film
 * @property {TraceLog} log
 * @property {number} seq id of A
 * @property {number} layer the recorded one
 * @property {boolean} isWhole whether both recordings and all arrays are loaded; otherwise only the first, with the
 * arrays of the first words
 * @property {number} numPrompt
 * @property {string[]} words A's tokens as displayed
 * @property {number[]} steps records that computed A until B arrived
 * @property {number[]} withoutCache cumulative computed tokens after each of these steps, without a cache
 * @property {number[]} withCache the same with the cache
 * @property {number} blockSize
 * @property {number} numBlocks
 * @property {number[]} table A's, after the last of `steps`
 * @property {Serving | null} serving
 * @property {number} fanAt record of the token whose candidates are shown as a fan
 * @property {Word[]} fan its candidates, most probable first
 */

const MIN_PROBABILITY = 0.02; // of a word in the fan
const MAX_WORDS = 5;

/**
 * Return the film of a recording `log` with requests named A, B and C, and of `plain`, A again without a cache (null
 * until it is loaded). Throws if there is no A.
 * @param {TraceLog} log
 * @param {TraceLog | null} plain
 * @returns {Film}
 */
export function filmOf(log, plain) {
  const named = new Map([...log.tail.sequences.values()].map((seq) => [seq.request_id, seq]));
  const a = named.get("A");
  if (!a) throw new Error("the opening's recording has no request A");
  const b = named.get("B");
  const until = b ? b.submitted_in : log.length;
  const steps = computing(log, a.seq_id).filter((index) => index < until);
  const last = steps[steps.length - 1];
  const first = plain ? [...plain.tail.sequences.keys()][0] : 0;
  const withoutCache = plain ? sums(plain, computing(plain, first)).slice(0, steps.length) : [];
  const after = log.stateAt(last);
  return {
    log,
    seq: a.seq_id,
    layer: log.capture(steps[0])?.layers[0]?.layer ?? 0,
    isWhole: plain !== null && log.capture(last) !== null,
    numPrompt: a.num_prompt_tokens,
    words: a.token_bytes.map(wordOf),
    steps,
    withoutCache,
    withCache: sums(log, steps),
    blockSize: after.block_size,
    numBlocks: after.blocks.length,
    table: after.sequences.get(a.seq_id)?.block_tables[0] ?? [],
    serving: servingOf(log, a.seq_id, b?.seq_id, named.get("C")?.seq_id),
    ...fanOf(log, a.seq_id, steps),
  };
}

/**
 * Return the query for the attention scene: among those with at most `maxKeys` keys, the one with the widest spread of
 * weights whose maximum still stands out. Null if no row was recorded.
 * @param {Film} film
 * @param {number} maxKeys
 * @returns {QueryAttention | null}
 */
export function attentionOf(film, maxKeys) {
  /** @type {(QueryAttention & {spread: number}) | null} */
  let best = null;
  for (const index of film.steps) {
    const query = queryIn(film, index);
    if (query + 1 < MIN_KEYS || query + 1 > maxKeys) continue;
    const found = widestRow(film.log, index, film.seq, query);
    if (found && (!best || found.spread > best.spread)) best = { index, query, ...found };
  }
  return best;
}

/**
 * Return K or V of A's position, or its Q in query head `head`; null if not recorded.
 * @param {Film} film
 * @param {"q" | "k" | "v"} kind
 * @param {number} position
 * @param {number} head
 */
export function vectorIn(film, kind, position, head) {
  const { log, seq, layer } = film;
  const record = film.steps[Math.max(0, position - film.numPrompt + 1)];
  const own = kind === "q" ? head : kvHeadOf(log.header.model, layer, head);
  return vectorAt(log, { record, seq_id: seq, position }, layer, kind, own);
}

/** Return the position of A's last token computed in record `index`. @param {Film} film @param {number} index */
const queryIn = (film, index) => film.numPrompt - 1 + film.steps.indexOf(index);

/** Return a token for display: without a leading space, line breaks as a symbol. @param {Uint8Array} bytes */
export function wordOf(bytes) {
  const label = loneLabel(bytes);
  const text = label.of ? label.hex : label.text;
  return text.length > 1 ? text.replace(/^␣/, "") : text;
}

/** Return the records that computed sequence `seq`, in order. @param {TraceLog} log @param {number} seq */
const computing = (log, seq) => (log.computed.get(seq) ?? []).map((span) => span.record);

/**
 * Return the cumulative number of computed tokens after each record.
 * @param {TraceLog} log
 * @param {number[]} records
 */
function sums(log, records) {
  let sum = 0;
  return records.map((index) => {
    for (const entry of log.records[index].batch ?? []) sum += entry.token_ids.length;
    return sum;
  });
}

/**
 * Return the first record in which C is deferred while A and B run.
 * @param {TraceLog} log
 * @param {number} a
 * @param {number | undefined} b
 * @param {number | undefined} c
 * @returns {Serving | null}
 */
function servingOf(log, a, b, c) {
  if (b === undefined || c === undefined) return null;
  for (const [index, record] of log.records.entries()) {
    const op = (record.ops ?? []).find((one) => one.type === "defer" && one.seq_id === c);
    if (op?.type !== "defer") continue;
    const { sequences } = log.stateAt(index);
    const [first, second] = [a, b].map((id) => ({ id, table: sequences.get(id)?.block_tables[0] ?? [] }));
    const shared = first.table.filter((id) => second.table.includes(id));
    return { index, a: first, b: second, c, shared, needed: op.needed, available: op.available };
  }
  return null;
}

/**
 * Return the record whose chosen token was the least probable, and its candidates.
 * @param {TraceLog} log
 * @param {number} seq
 * @param {number[]} steps
 */
function fanOf(log, seq, steps) {
  let [fanAt, minimum] = [steps[0], Infinity];
  for (const index of steps) {
    const top = topOf(log, index, seq);
    if (top[0] && top[0].p < minimum) [fanAt, minimum] = [index, top[0].p];
  }
  return {
    fanAt,
    fan: topOf(log, fanAt, seq)
      .slice(0, MAX_WORDS)
      .filter((word) => word.p >= MIN_PROBABILITY),
  };
}

/** @param {TraceLog} log @param {number} index @param {number} seq @returns {Word[]} */
function topOf(log, index, seq) {
  const output = outputIn(log.records[index], seq);
  return (output?.top ?? []).map((one) => ({
    token_id: one.token_id,
    text: wordOf(one.token_bytes),
    p: Math.exp(one.logprob),
  }));
}
