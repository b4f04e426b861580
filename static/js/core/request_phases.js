// Where a request's time went: queued, in prefill, moving between instances, in decode, preempted; as seconds and as a
// bar. The lanes of the scheduler, on the engine's clock. Pure.

import { beganAt, engineTime, latestTime } from "./metrics.js";
import { isShared } from "./parts.js";

/**
 * @typedef {import("./metrics.js").Log} Log
 * @typedef {import("./lanes.js").Lane} Lane
 * @typedef {"waiting" | "receiving" | "prefill" | "decode" | "preempted"} Phase `waiting`: in the engine's queue,
 *   before it is admitted; `receiving`: from the step that found room for what another instance has computed until
 *   that is here; `prefill` and `decode`: what its steps were, and where it ran without a place in a step, what they
 *   were before; `preempted`: from the step that preempted it until the one that admitted it again
 * @typedef {{phase: Phase, from: number, to: number, begin: number, end: number, seq: number}} Segment `from` and
 *   `to`: records, inclusive; `begin` and `end`: seconds of engine time; `seq`: the part that it is of
 */

/**
 * The phases of a lane, one after the other; while only its blocks are held the request is not here any more.
 * @param {Lane} lane
 */
function phasesOf({ runs }) {
  /** @type {{phase: Phase, from: number, to: number, last: number}[]} `last`: the record that did the last of it */
  const found = [];
  for (const { kind, from, to } of runs) {
    if (kind === "holding") continue;
    const last = found[found.length - 1];
    const phase = kind === "idle" ? (last?.phase ?? "prefill") : kind === "swapped" ? "preempted" : kind;
    if (last?.phase !== phase) found.push({ phase, from, to, last: to });
    else Object.assign(last, { to, last: kind === "idle" ? last.last : to });
  }
  return found;
}

/**
 * The phases of a request's lanes, one a part, in their order. Where instances share a clock it goes on while nobody
 * steps: what was computed ends with its last step, as long as another one may be away.
 * @param {Log} log @param {readonly Lane[]} lanes @returns {Segment[]}
 */
export function segmentsOf(log, lanes) {
  return lanes.flatMap((lane) => {
    const until = lane.to === null ? latestTime(log) : engineTime(log, lane.to);
    // a fork runs in the record that it came in
    let begin = lane.parent === null ? engineTime(log, lane.from) : beganAt(log, lane.from);
    return phasesOf(lane).map(({ last, ...segment }, i, all) => {
      const next = all[i + 1] ? Math.max(begin, beganAt(log, all[i + 1].from)) : Math.max(begin, until);
      const isComputed = segment.phase === "prefill" || segment.phase === "decode";
      const end = isComputed && isShared(log) ? Math.min(next, Math.max(begin, engineTime(log, last))) : next;
      const found = { ...segment, begin, end, seq: lane.seq_id };
      begin = next;
      return found;
    });
  });
}

/**
 * Seconds of each phase as far as the log is here, and where the request begins and ends on the engine's clock.
 * @param {Log} log @param {readonly Lane[]} lanes
 */
export function phaseSeconds(log, lanes) {
  const segments = segmentsOf(log, lanes);
  const [begin, until] = [segments[0]?.begin ?? 0, segments[segments.length - 1]?.end ?? 0];
  const found = { waiting: 0, receiving: 0, prefill: 0, decode: 0, preempted: 0, begin, until };
  for (const segment of segments) found[segment.phase] += segment.end - segment.begin;
  return found;
}

/**
 * A request as a bar `width` px wide, whose ends are the times `begin` and `end`; what does not come to the next pixel
 * goes with what is before it.
 * @param {Log} log @param {readonly Lane[]} lanes @param {number} begin seconds @param {number} end
 * @param {number} width px
 * @returns {(Segment & {x: number, width: number})[]}
 */
export function barOf(log, lanes, begin, end, width) {
  const scale = end > begin ? width / (end - begin) : 0;
  const at = (/** @type {number} */ seconds) => Math.max(0, Math.min(width, (seconds - begin) * scale));
  /** @type {(Segment & {x: number, width: number})[]} */
  const bar = [];
  for (const segment of segmentsOf(log, lanes)) {
    const [x, right] = [at(segment.begin), at(segment.end)];
    const last = bar[bar.length - 1];
    if (right <= x) continue; // before the bar, behind it, or without time
    if (last && (Math.floor(right) === Math.floor(x) || last.phase === segment.phase)) {
      Object.assign(last, { to: segment.to, end: segment.end, width: right - last.x });
    } else bar.push({ ...segment, x, width: right - x });
  }
  return bar;
}
