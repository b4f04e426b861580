// Phases of a request's time: queued, prefill, transfer between instances, decode, preempted; as seconds and as a bar.
// Based on the scheduler's tracks and the engine's clock. Pure.

import { beganAt, engineTime, latestTime } from "./metrics.js";
import { isShared } from "./request_parts.js";

/** @import {Log} from "./metrics.js" */
/** @import {Track} from "./tracks.js" */

/**
 * @typedef {"waiting" | "receiving" | "prefill" | "decode" | "preempted"} Phase `waiting`: in the engine's queue before
 * its admission; `receiving`: from the step that reserved space for another instance's blocks until they arrive;
 * `prefill` and `decode`: steps of that kind, and time after them in which it runs without being scheduled;
 * `preempted`: from its preemption to its readmission
 * @typedef {{phase: Phase, from: number, to: number, begin: number, end: number, seq: number}} Segment `from` and `to`:
 * records, inclusive; `begin` and `end`: seconds of engine time; `seq`: its part
 */

/** Return the phases of a track in order, without the time in which only its blocks are held. @param {Track} track */
function phasesOf({ runs }) {
  /** @type {{phase: Phase, from: number, to: number, last: number}[]} `last`: last record that computed in it */
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
 * Return the phases of a request's tracks, one track per part, in order. The shared clock of several instances also
 * runs between steps, so a computing phase ends with its last step, and the next one may begin later.
 * @param {Log} log
 * @param {readonly Track[]} tracks
 * @returns {Segment[]}
 */
export function segmentsOf(log, tracks) {
  return tracks.flatMap((track) => {
    const until = track.to === null ? latestTime(log) : engineTime(log, track.to);
    // a fork runs in the record that created it
    let begin = track.parent === null ? engineTime(log, track.from) : beganAt(log, track.from);
    return phasesOf(track).map(({ last, ...segment }, i, all) => {
      const next = all[i + 1] ? Math.max(begin, beganAt(log, all[i + 1].from)) : Math.max(begin, until);
      const isComputed = segment.phase === "prefill" || segment.phase === "decode";
      const end = isComputed && isShared(log) ? Math.min(next, Math.max(begin, engineTime(log, last))) : next;
      const found = { ...segment, begin, end, seq: track.seq_id };
      begin = next;
      return found;
    });
  });
}

/**
 * Return the seconds of each phase up to the log's end, and the request's start and end on the engine's clock.
 * @param {Log} log
 * @param {readonly Track[]} tracks
 */
export function phaseSeconds(log, tracks) {
  const segments = segmentsOf(log, tracks);
  const [begin, until] = [segments[0]?.begin ?? 0, segments[segments.length - 1]?.end ?? 0];
  const found = { waiting: 0, receiving: 0, prefill: 0, decode: 0, preempted: 0, begin, until };
  for (const segment of segments) found[segment.phase] += segment.end - segment.begin;
  return found;
}

/**
 * Return a request as a bar `width` px wide between the times `begin` and `end`; segments narrower than a pixel merge
 * into the previous one.
 * @param {Log} log
 * @param {readonly Track[]} tracks
 * @param {number} begin seconds
 * @param {number} end
 * @param {number} width px
 * @returns {(Segment & {x: number, width: number})[]}
 */
export function barOf(log, tracks, begin, end, width) {
  const scale = end > begin ? width / (end - begin) : 0;
  const at = (/** @type {number} */ seconds) => Math.max(0, Math.min(width, (seconds - begin) * scale));
  /** @type {(Segment & {x: number, width: number})[]} */
  const bar = [];
  for (const segment of segmentsOf(log, tracks)) {
    const [x, right] = [at(segment.begin), at(segment.end)];
    const last = bar[bar.length - 1];
    if (right <= x) continue; // outside the bar, or of zero length
    if (last && (Math.floor(right) === Math.floor(x) || last.phase === segment.phase)) {
      Object.assign(last, { to: segment.to, end: segment.end, width: right - last.x });
    } else bar.push({ ...segment, x, width: right - x });
  }
  return bar;
}
