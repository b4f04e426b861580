// One prompt under several strategies, compared: what each step computed and kept, and whether the tokens are the same.
// Every figure comes from the lanes' logs; a lane is the log of one run of one sequence.

import { heldIn } from "../core/groups.js";
import { stepSeconds } from "../core/metrics.js";

/** Indices of the records in which the engine took a step, in order. */
export function stepRecords(log) {
  const known = steps.get(log) ?? { length: 0, found: [] };
  for (; known.length < log.length; known.length++)
    if (log.records[known.length].kind === "step") known.found.push(known.length);
  steps.set(log, known);
  return known.found;
}

const steps = new WeakMap(); // log -> {length: records looked at, found}

/**
 * A lane after its `step`-th step (0: before the first), or after its last one if it took fewer.
 *
 * Of the step itself (0 where it took none): `computed` tokens, `flops`, engine `seconds`; and the memory during the forward
 * pass: `held` bytes of the blocks in its table, `used` bytes of the positions with K and V, `wasted` = held − used, with
 * the same in slots: `slots` = {reserved, read, computed}, positions [0, read) come from the cache and the next `computed` are
 * computed. `kept` bytes are still used after it. `total*` sum over the steps so far. `tokenIds`, `tokenBytes`: chosen so far.
 */
export function laneAt(log, step) {
  const records = stepRecords(log);
  const index = records[Math.min(step, records.length) - 1];
  const lane = {
    strategy: log.header.engine.strategy,
    step: Math.min(step, records.length),
    finished: step >= records.length && log.length > 0 && log.tail.waiting.length + log.tail.running.length === 0,
    ...totals(log, Math.min(step, records.length)),
    computed: 0,
    flops: 0,
    seconds: 0,
    slots: null,
    held: 0,
    used: 0,
    wasted: 0,
    kept: index === undefined ? 0 : log.records[index].memory.bytes_used,
    tokenIds: [],
    tokenBytes: [],
  };
  for (const at of records.slice(0, step))
    for (const output of log.records[at].outputs ?? []) {
      lane.tokenIds.push(output.token_id);
      lane.tokenBytes.push(output.token_bytes);
    }
  if (step > records.length || index === undefined) return lane;
  const record = log.records[index];
  const entry = record.batch[0];
  lane.seconds = stepSeconds(record);
  if (!entry) return lane;
  const size = log.header.engine.block_size;
  const tables = log.tablesAtCompute(index, entry.seq_id) ?? [];
  const reserved = (tables[0]?.length ?? 0) * size;
  lane.computed = entry.token_ids.length;
  lane.flops = record.work?.flops ?? 0;
  lane.slots = { reserved, read: entry.start, computed: lane.computed };
  tables.forEach((table, group) => {
    const perToken = log.groups[group].kv_bytes_per_token;
    const held = heldIn(table).length;
    lane.held += held * size * perToken;
    lane.used += (entry.start + lane.computed - (table.length - held) * size) * perToken; // a released block was full
  });
  lane.wasted = lane.held - lane.used;
  return lane;
}

function totals(log, count) {
  const sums = { totalComputed: 0, totalFlops: 0, totalSeconds: 0 };
  for (const index of stepRecords(log).slice(0, count)) {
    const record = log.records[index];
    sums.totalComputed += tokensComputed(record);
    sums.totalFlops += record.work?.flops ?? 0;
    sums.totalSeconds += stepSeconds(record);
  }
  return sums;
}

const tokensComputed = (record) => (record.batch ?? []).reduce((sum, entry) => sum + entry.token_ids.length, 0);

/** Tokens computed up to and including each step, from the first. */
export function computedSoFar(log) {
  let sum = 0;
  return stepRecords(log).map((index) => (sum += tokensComputed(log.records[index])));
}

/**
 * Whether lanes chose the same tokens: `{same, difference}`. `same`: how many tokens from the first on are equal in all of
 * them. `difference`: the place of the first that is not, or null; a lane that has finished without a token there differs
 * too, one that has only not come so far does not.
 */
export function compareTokens(lanes) {
  const longest = Math.max(...lanes.map((lane) => lane.tokenIds.length));
  for (let i = 0; i < longest; i++) {
    if (lanes.some((lane) => i >= lane.tokenIds.length && !lane.finished)) return { same: i, difference: null };
    if (lanes.some((lane) => lane.tokenIds[i] !== lanes[0].tokenIds[i])) return { same: i, difference: i };
  }
  return { same: longest, difference: null };
}

/** All lanes after `step` steps, with the comparison of their tokens. */
export function raceAt(logs, step) {
  const lanes = logs.map((log) => laneAt(log, step));
  return { step, lanes, ...compareTokens(lanes), finished: lanes.every((lane) => lane.finished) };
}

/** Tokens that a run will have computed when it chose `count` tokens after a prompt of `prompt`: with and without cache. */
export function expectedComputed(prompt, count) {
  return { cached: prompt + count - 1, none: count * prompt + (count * (count - 1)) / 2 };
}

/**
 * Why time differs less than work, in this run's numbers; null before two steps that decode. `plain` and `cached` are logs.
 * The ratios are those of the sums over `step` steps; `plainStep` and `cachedStep` the medians of the steps after the first,
 * `{tokens, seconds}`; `slowest` the longest of the cached lane's. Medians, because anything else that works on the machine
 * makes single steps long.
 */
export function timeAgainstWork(plain, cached, step) {
  const [a, b] = [laneAt(plain, step), laneAt(cached, step)];
  const decoded = (log) =>
    stepRecords(log)
      .slice(1, step)
      .map((index) => log.records[index]);
  const [many, one] = [decoded(plain), decoded(cached)];
  if (many.length < 2 || one.length < 2 || !b.totalFlops || !b.totalSeconds) return null;
  const middle = (records) => ({
    tokens: median(records.map(tokensComputed)),
    seconds: median(records.map(stepSeconds)),
  });
  return {
    flops: a.totalFlops / b.totalFlops,
    time: a.totalSeconds / b.totalSeconds,
    plainStep: middle(many),
    cachedStep: middle(one),
    slowest: Math.max(...one.map(stepSeconds)),
  };
}

function median(values) {
  const sorted = [...values].sort((x, y) => x - y);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
