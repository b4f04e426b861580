// Data of the time charts, one row of numbers per point; the rows are also exported as CSV. Pure.

import { csvText } from "./csv.js";
import { blockGroups, capacityBytes } from "./groups.js";
import { latencies, partAfter, phaseOf, rooflinePoint, stepSeconds } from "./metrics.js";

/** @typedef {{records: import("./trace.js").StepRecord[]}} Log */

/**
 * Return the seconds of every step by stage: {record, step, phase, schedule, prepare, forward, sample, total}.
 * @param {Log} log
 */
export function stepRows(log) {
  const found = [];
  for (const record of log.records) {
    const phase = phaseOf(record);
    if (record.kind !== "step" || phase === null) continue;
    const { schedule = 0, prepare = 0, forward = 0, sample = 0 } = record.timing;
    found.push({
      record: record.index,
      step: record.step,
      phase,
      schedule,
      prepare,
      forward,
      sample,
      total: stepSeconds(record),
    });
  }
  return found;
}

/**
 * Return the bytes of the pools after every record: {record, step, used, wasted, held, cached, pool}; used + wasted =
 * held.
 * @param {Log & {header: import("./groups.js").Header}} log
 */
export function memoryRows(log) {
  const groups = blockGroups(log.header);
  return log.records.map(({ index, step, memory: m }) => ({
    record: index,
    step,
    used: m.bytes_used,
    wasted: m.bytes_held - m.bytes_used,
    held: m.bytes_held,
    cached: m.bytes_cached,
    pool: capacityBytes(groups, m.block_size),
  }));
}

/**
 * Return steps on the roofline: {record, step, phase, flops, bytes, intensity, achieved}; steps without work are left
 * out.
 * @param {Log} log
 */
export function rooflineRows(log) {
  const found = [];
  for (const record of log.records) {
    const point = rooflinePoint(record);
    if (point) found.push({ record: record.index, step: record.step, ...point });
  }
  return found;
}

/**
 * Return latencies of every sequence up to record `index`, in seconds: {seq, tokens, queue, ttft, tpot, itl_max, itl,
 * itl_tokens}; one row per request that spans several instances.
 * @param {import("./log.js").TraceLog} log
 * @param {number} index
 */
export function sequenceRows(log, index) {
  if (index < 0) return [];
  const { sequences } = log.stateAt(index);
  const last = [...sequences.keys()].filter((seq) => !sequences.has(partAfter(log, seq) ?? -1));
  return last.map((seq) => {
    const { queue, ttft, tpot, itl, itl_tokens, num_output_tokens: tokens } = latencies(log, seq, index);
    return { seq, tokens, queue, ttft, tpot, itl_max: itl.length ? Math.max(...itl) : null, itl, itl_tokens };
  });
}

/**
 * Return a sample of the gaps between tokens: {seq, seconds, token} of every `every`-th gap of each sequence, and of
 * its longest. `every` is chosen so that about `limit` are drawn.
 * @param {ReturnType<typeof sequenceRows>} rows
 * @param {number} limit
 */
export function drawnGaps(rows, limit) {
  const every = Math.max(1, Math.ceil(rows.reduce((sum, row) => sum + row.itl.length, 0) / limit));
  const gaps = rows.flatMap((row) =>
    row.itl.flatMap((seconds, i) =>
      i % every === 0 || seconds === row.itl_max ? [{ seq: row.seq, seconds, token: row.itl_tokens[i] }] : [],
    ),
  );
  return { every, gaps };
}

/** Return rows as CSV with their field names as header. @param {Record<string, import("./csv.js").Cell>[]} rows */
export function csvOf(rows) {
  if (!rows.length) return "";
  const names = Object.keys(rows[0]);
  return csvText([names, ...rows.map((row) => names.map((name) => row[name]))]);
}
