// Figures of a prompt under several strategies: tokens computed and memory in each step. All are derived from the
// lanes' logs; a lane is the log of a run with one sequence. Pure.

import { heldIn } from "../../core/groups.js";
import { unfinished } from "../../core/instances.js";
import { bytesMoved, stepSeconds } from "../../core/metrics.js";
import { stepRecords } from "../../runs/steps.js";
import { align, sequencesAt } from "../../runs/tokens.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {StepRecord} from "../../core/trace.js" */
/** @import {Aligned} from "../../runs/tokens.js" */

/**
 * @typedef {ReturnType<typeof laneAt>} LaneFigures
 * @typedef {{step: number, lanes: LaneFigures[], tokens: Aligned, finished: boolean}} Race
 */

/**
 * Return the figures of a lane after its `step`-th step (0: before the first), or after its last one if it took fewer.
 *
 * Of the step itself (0 if none): `computed` tokens, `flops`, `bytes` moved, `intensity` = flops / bytes (null without
 * bytes), `copied` bytes of K and V of earlier tokens and `storage` bytes of the K and V tensors (null if not counted),
 * engine `seconds`. Memory during the forward pass: `held` bytes of the blocks in its table, `used` bytes of the
 * positions with K and V, `wasted` = held − used; the same in slots: `slots` = {reserved, read, computed}, where
 * positions [0, read) come from the cache and the next `computed` are computed. `held` = `kept` + `transient`: memory
 * that persists until the sequence ends, and memory of this step alone, which is all of it for strategies without a
 * cache. `blocks` of K and V, `states` bytes of the state after the step, `perToken` bytes of K and V of a position. Of
 * the bytes moved, `weightBytes` are weights and `kvBytes` are K and V read and written. `total*` are sums over the
 * steps so far.
 * @param {TraceLog} log @param {number} step
 */
export function laneAt(log, step) {
  const records = stepRecords(log);
  const index = records[Math.min(step, records.length) - 1];
  const lane = {
    step: Math.min(step, records.length),
    finished: step >= records.length && log.length > 0 && unfinished(log.tail) === 0,
    ...totals(log, Math.min(step, records.length)),
    computed: 0,
    flops: 0,
    bytes: 0,
    weightBytes: 0,
    kvBytes: 0,
    perToken: log.groups.reduce((sum, group) => sum + group.kv_bytes_per_token, 0),
    blocks: 0,
    states: 0,
    intensity: /** @type {number | null} */ (null),
    copied: /** @type {number | null} */ (null),
    storage: /** @type {number | null} */ (null),
    seconds: 0,
    slots: /** @type {{reserved: number, read: number, computed: number} | null} */ (null),
    held: 0,
    used: 0,
    wasted: 0,
    kept: 0,
    transient: 0,
  };
  if (step > records.length || index === undefined) return lane;
  const record = log.records[index];
  const entry = record.batch?.[0];
  lane.seconds = stepSeconds(record);
  if (!entry) return lane;
  const { block_size: size } = log.tail;
  const tables = log.tablesAtCompute(index, entry.seq_id) ?? [];
  const reserved = (tables[0]?.length ?? 0) * size;
  lane.computed = entry.token_ids.length;
  lane.flops = record.work?.flops ?? 0;
  lane.bytes = record.work ? bytesMoved(record.work) : 0;
  lane.weightBytes = record.work?.weight_bytes ?? 0;
  lane.kvBytes = lane.bytes - lane.weightBytes;
  lane.intensity = lane.bytes ? lane.flops / lane.bytes : null;
  lane.copied = record.cache_tensors?.copied_bytes ?? null;
  lane.storage = record.cache_tensors?.storage_bytes ?? null;
  lane.slots = { reserved, read: entry.start, computed: lane.computed };
  tables.forEach((table, group) => {
    const { kv_bytes_per_token: perToken, state_bytes: each } = log.groups[group];
    const held = heldIn(table).length;
    if (each) return void (lane.states += Math.min(held, 1) * each); // counted once at block boundaries
    lane.blocks += held;
    lane.held += held * size * perToken;
    lane.used += (entry.start + lane.computed - (table.length - held) * size) * perToken; // released blocks were full
  });
  lane.held += lane.states;
  lane.used += lane.states;
  lane.wasted = lane.held - lane.used;
  lane[log.header.engine.strategy === "none" ? "transient" : "kept"] = lane.held;
  return lane;
}

/** @param {TraceLog} log @param {number} count steps */
function totals(log, count) {
  const sums = { totalComputed: 0, totalFlops: 0, totalBytes: 0, totalCopied: 0, totalSeconds: 0 };
  for (const index of stepRecords(log).slice(0, count)) {
    const record = log.records[index];
    sums.totalComputed += tokensComputed(record);
    sums.totalFlops += record.work?.flops ?? 0;
    sums.totalBytes += record.work ? bytesMoved(record.work) : 0;
    sums.totalCopied += record.cache_tensors?.copied_bytes ?? 0;
    sums.totalSeconds += stepSeconds(record);
  }
  return sums;
}

/** @param {StepRecord} record */
const tokensComputed = (record) => (record.batch ?? []).reduce((sum, entry) => sum + entry.token_ids.length, 0);

/** Return the tokens computed up to and including each step. @param {TraceLog} log */
export const cumulativeComputed = (log) => cumulative(log, tokensComputed);

/** Return the bytes of K and V copied up to and including each step. @param {TraceLog} log */
export const cumulativeCopied = (log) => cumulative(log, (record) => record.cache_tensors?.copied_bytes ?? 0);

/** @param {TraceLog} log @param {(record: StepRecord) => number} figure */
function cumulative(log, figure) {
  let sum = 0;
  return stepRecords(log).map((index) => (sum += figure(log.records[index])));
}

/** Return the bytes of the blocks held in each step. @param {TraceLog} log */
export function heldInEach(log) {
  const held = heldCache.get(log) ?? [];
  heldCache.set(log, held);
  const count = stepRecords(log).length;
  while (held.length < count) held.push(laneAt(log, held.length + 1).held);
  return held;
}

/** @type {WeakMap<TraceLog, number[]>} by step; valid because logs only grow */
const heldCache = new WeakMap();

/**
 * Return how often each position of the lane's sequence was computed in its first `step` steps. With a cache, each
 * position is computed once; without one, it is computed in every step after its token exists.
 * @param {TraceLog} log @param {number} step
 */
export function timesComputed(log, step) {
  /** @type {number[]} */
  const times = [];
  for (const index of stepRecords(log).slice(0, step))
    for (const { start, token_ids } of log.records[index].batch ?? [])
      token_ids.forEach((_, i) => (times[start + i] = (times[start + i] ?? 0) + 1));
  return times;
}

/**
 * Return all lanes after `step` steps, with their tokens.
 * @param {TraceLog[]} logs @param {number} step
 * @returns {Race}
 */
export function raceAt(logs, step) {
  const lanes = logs.map((log) => laneAt(log, step));
  const [tokens] = sequencesAt(logs, step);
  const none = logs.map(() => []);
  return { step, lanes, tokens: tokens ?? align(none, () => false), finished: lanes.every((lane) => lane.finished) };
}

/**
 * Return the tokens computed for `count` output tokens after a prompt of `prompt` tokens, with and without a cache.
 * @param {number} prompt @param {number} count
 */
export function expectedComputed(prompt, count) {
  return { cached: prompt + count - 1, none: count * prompt + (count * (count - 1)) / 2 };
}

/**
 * Positions copied by concatenation in `count` steps after a prompt of `prompt` tokens: the i-th step after the first
 * copies prompt + i − 1 positions into a new tensor.
 * @param {number} prompt @param {number} count
 */
export const expectedCopied = (prompt, count) => ((count - 1) * (2 * prompt + count - 2)) / 2;

/**
 * Return the ratios of work and time of two lanes over `step` steps, or null before two decode steps. `plainStep` and
 * `cachedStep` are the medians of the steps after the first as `{tokens, seconds}`, since single steps may be slowed by
 * other load on the machine. `slowest` is the cached lane's longest step.
 * @param {TraceLog} plain @param {TraceLog} cached @param {number} step
 */
export function timeAgainstWork(plain, cached, step) {
  const [a, b] = [laneAt(plain, step), laneAt(cached, step)];
  const decoded = (/** @type {TraceLog} */ log) =>
    stepRecords(log)
      .slice(1, step)
      .map((index) => log.records[index]);
  const [plainRecords, cachedRecords] = [decoded(plain), decoded(cached)];
  if (plainRecords.length < 2 || cachedRecords.length < 2 || !b.totalFlops || !b.totalSeconds) return null;
  const mediansOf = (/** @type {StepRecord[]} */ records) => ({
    tokens: median(records.map(tokensComputed)),
    seconds: median(records.map(stepSeconds)),
  });
  return {
    flops: a.totalFlops / b.totalFlops,
    time: a.totalSeconds / b.totalSeconds,
    plainStep: mediansOf(plainRecords),
    cachedStep: mediansOf(cachedRecords),
    slowest: Math.max(...cachedRecords.map(stepSeconds)),
  };
}

/** @param {number[]} values */
function median(values) {
  const sorted = [...values].sort((x, y) => x - y);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
