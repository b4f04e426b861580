// Where a request's time went: queued, in prefill, in decode, preempted; as seconds and as a bar. The lanes of the
// scheduler, on the engine's clock. Pure.

import { engineTime } from "./metrics.js";

/**
 * @typedef {import("./metrics.js").Log} Log
 * @typedef {import("./lanes.js").Lane} Lane
 * @typedef {"waiting" | "prefill" | "decode" | "preempted"} Phase `waiting`: in the engine's queue, before its first
 *   admission; `prefill` and `decode`: what its steps were, and where it ran without a place in a step, what they were
 *   before; `preempted`: from the step that preempted it until the one that admitted it again
 * @typedef {{phase: Phase, from: number, to: number}} Segment records, inclusive
 */

/**
 * The phases of a lane, one after the other.
 * @param {Lane} lane @returns {Segment[]}
 */
export function phasesOf({ runs }) {
  /** @type {Segment[]} */
  const found = [];
  for (const { kind, from, to } of runs) {
    const last = found[found.length - 1];
    const phase = kind === "idle" ? (last?.phase ?? "prefill") : kind === "swapped" ? "preempted" : kind;
    if (last?.phase === phase) last.to = to;
    else found.push({ phase, from, to });
  }
  return found;
}

/**
 * Seconds of each phase as far as the log is here, and where the lane begins and ends on the engine's clock.
 * @param {Log} log @param {Lane} lane
 */
export function phaseSeconds(log, lane) {
  const found = { waiting: 0, prefill: 0, decode: 0, preempted: 0, begin: engineTime(log, lane.from), until: 0 };
  if (lane.parent !== null) found.begin = engineTime(log, lane.from - 1); // a fork runs in the record that it came in
  for (const { phase, from, to } of phasesOf(lane))
    found[phase] += engineTime(log, to) - engineTime(log, Math.max(from - 1, lane.parent === null ? lane.from : -1));
  found.until = engineTime(log, lane.to ?? log.records.length - 1);
  return found;
}

/**
 * A lane as a bar `width` px wide, whose ends are the times `begin` and `end`; what does not come to the next pixel
 * goes with what is before it.
 * @param {Log} log @param {Lane} lane @param {number} begin seconds @param {number} end @param {number} width px
 * @returns {(Segment & {x: number, width: number})[]}
 */
export function barOf(log, lane, begin, end, width) {
  const scale = end > begin ? width / (end - begin) : 0;
  const at = (/** @type {number} */ record) => Math.max(0, Math.min(width, (engineTime(log, record) - begin) * scale));
  /** @type {(Segment & {x: number, width: number})[]} */
  const bar = [];
  for (const segment of phasesOf(lane)) {
    const [x, right] = [at(segment.from - 1), at(segment.to)];
    const last = bar[bar.length - 1];
    if (right <= x) continue; // before the bar, behind it, or without time
    if (last && (Math.floor(right) === Math.floor(x) || last.phase === segment.phase)) {
      last.to = segment.to;
      last.width = right - last.x;
    } else bar.push({ ...segment, x, width: right - x });
  }
  return bar;
}
