// Motion model: the frame drawn between two records, as a pure function of start, target and time.
//
// The playhead is a record and the progress within it: `at` runs from 0 (nothing shown) to 6 (complete), one unit per
// phase. The setting `sub` pins it inside a step (k = shown up to the end of phase k, null = complete). Painters read
// `phases()` alone and need not distinguish forward, backward, interrupted and pinned motion.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";
import * as store from "./store.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */

/**
 * @typedef {"schedule" | "allocate" | "qkv" | "write" | "attend" | "sample"} Phase
 * @typedef {Record<Phase, number>} Progress
 * @typedef {{index: number, at: number}} Playhead
 * @typedef {{index: number, from: number, to: number, ms: number}} Way
 */

/** The sub-steps inside a step, in order. @type {readonly Phase[]} */
export const PHASES = ["schedule", "allocate", "qkv", "write", "attend", "sample"];

const WHOLE = PHASES.length;
const PHASE_MS = 350; // one sub-step at speed 1
const STEP_MS = 900; // a whole step at speed 1
const SHORTEST_MS = 60; // shorter motions are skipped
const SLOWEST = 0.25; // steps per second down to which a slow run stretches the motion of its steps
const READABLE_MS = 1500; // whole motions from this length on have sub-steps long enough to read a sentence in

// ── Pure ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Return the progress of each phase by name, in [0, 1] and eased (fast, then a pause), for a record shown up to `at`.
 * @param {number} at
 * @returns {Progress}
 */
export function phaseProgress(at) {
  const found = /** @type {Progress} */ ({});
  PHASES.forEach((name, i) => {
    const t = Math.max(0, Math.min(1, at - i));
    found[name] = 1 - (1 - t) ** 3;
  });
  return found;
}

/**
 * Return the relative duration of each phase of `record` in a motion through several phases.
 * @param {import("../core/trace.js").StepRecord | undefined} record
 */
function phaseShares(record) {
  if (record?.kind === "transfer") return [0.4, 1.6, 0, 0, 0, 0]; // freed; received
  const takes = (record?.ops ?? []).some((op) => TAKING.has(op.type));
  return [0.6, takes ? 1 : 0, 1, 1.5, 1.4, 1]; // K and V travel a long way in the fourth phase
}

const TAKING = new Set(["allocate", "share", "evict", "copy", "fork"]);

/**
 * Return the position between `from` and `to` (both in [0, 6]) after the share `t` of the motion's time.
 * @param {number} from
 * @param {number} to
 * @param {number} t
 * @param {number[]} shares
 */
export function positionAt(from, to, t, shares) {
  if (t >= 1) return to;
  const [low, high] = from < to ? [from, to] : [to, from];
  /** @param {number} at */
  const spent = (at) => shares.reduce((sum, share, i) => sum + share * Math.max(0, Math.min(1, at - i)), 0);
  const total = spent(high) - spent(low);
  if (total === 0) return to;
  let left = (from < to ? t : 1 - t) * total + spent(low);
  for (let i = 0; i < WHOLE; i++) {
    if (left < shares[i]) return Math.max(low, Math.min(high, i + left / shares[i]));
    left -= shares[i];
  }
  return high;
}

/**
 * Return the motion from one playhead to another: `{index, from, to, ms}` at speed 1, where `index` is the record drawn
 * meanwhile (when going back, the later one). Returns null for distances longer than a step, which are shown at once.
 * `moves(i)` is false for records that are neither steps nor transfers; they have no motion and are skipped.
 * @param {Playhead} a
 * @param {Playhead} b
 * @param {(index: number) => boolean} moves
 * @returns {Way | null}
 */
export function motionBetween(a, b, moves) {
  /** @type {(low: number, high: number) => boolean} */
  const adjacent = (low, high) => {
    for (let i = low + 1; i < high; i++) if (moves(i)) return false;
    return moves(high);
  };
  /** @type {Omit<Way, "ms"> | null} */
  let way = null;
  if (a.index === b.index) way = moves(a.index) ? { index: a.index, from: a.at, to: b.at } : null;
  else if (a.index < b.index) way = adjacent(a.index, b.index) ? { index: b.index, from: 0, to: b.at } : null;
  else if (b.at === WHOLE) way = adjacent(b.index, a.index) ? { index: a.index, from: a.at, to: 0 } : null;
  return way && { ...way, ms: Math.min(STEP_MS, PHASE_MS * Math.abs(way.to - way.from)) };
}

// ── The page's playhead ──────────────────────────────────────────────────────────────────────────────────────────────

/** Whether the system prefers reduced motion. */
export const reducedMotion = signal(false);
/**
 * Steps per second at which a recording is played; null when none is. Set by the transport.
 * @type {Signal<number | null>}
 */
export const playSpeed = signal(null);
/** Whether a motion is running. */
export const moving = signal(false);
/** Whether motion is disabled: new content fades in instead. */
export const still = computed(() => reducedMotion.value || !settings.motion.value);
/** Index of the record being drawn: that of `viewIndex`, or while going back the later one until the motion ends. */
export const drawnIndex = store.drawnIndex;

/**
 * The sub-step that a slow motion is in, 0…5: the status follows it. Null at rest and in motions too fast to read.
 * @type {Signal<number | null>}
 */
export const playedSub = signal(null);

const progress = signal(phaseProgress(WHOLE));
let shown = { index: -1, at: WHOLE }; // on the screen
let target = shown; // end of the motion
/** @type {(Way & {began: number | null, shares: number[]}) | null} */
let motion = null;
let startedAt = 0; // when the last motion or jump started
/** @type {number | null} */
let arrival = null; // sub-step at which the next record is entered
/** @type {import("../core/log.js").TraceLog | null} */
let shownLog = null;

/**
 * Return the progress of each phase of the drawn record by name, each in [0, 1]; all 1 once it is complete and at rest.
 * Reading it subscribes an effect, a painter's `watch` or a component to every frame of a motion; prefer painters.
 */
export const phases = () => progress.value;

const parts = /** @type {Record<Phase, import("../../vendor/signals/signals.js").ReadonlySignal<number>>} */ (
  Object.fromEntries(PHASES.map((name) => [name, computed(() => progress.value[name])]))
);

/**
 * Return the progress of one phase: a painter that watches only this is idle while the other phases move.
 * @param {Phase} name
 */
export const phase = (name) => parts[name].value;

/** Return the progress of all phases without subscribing to frames. */
export const phasesNow = () => progress.peek();

/** @param {number} index */
const isStep = (index) => store.log.peek()?.records[index]?.kind === "step";

/** Return whether record `index` has a motion. @param {number} index */
const moves = (index) => isStep(index) || store.log.peek()?.records[index]?.kind === "transfer";

/** The shown sub-step of the requested record: 0…5, or null for a complete record or one without sub-steps. */
export const viewSub = computed(() => {
  const index = store.viewIndex.value;
  const sub = settings.sub.value;
  return sub === null || store.log.value?.records[index]?.kind !== "step"
    ? null
    : Math.max(0, Math.min(sub, WHOLE - 1));
});

/**
 * Show record `index` up to sub-step `sub` (null: complete, and the newest record is followed).
 * @param {number} index
 * @param {number | null} [sub]
 */
export function movePlayhead(index, sub = null) {
  arrival = null;
  if (sub === null || !isStep(index)) return store.goTo(index);
  batch(() => {
    settings.step.value = Math.max(-1, Math.min(index, store.numRecords.peek() - 1));
    settings.sub.value = Math.max(0, Math.min(sub, WHOLE - 1));
  });
}

/**
 * Move one sub-step forward (+1) or back (−1). Returns false before the first record and after the newest one's last.
 * @param {number} direction
 */
export function stepPlayhead(direction) {
  const index = store.viewIndex.peek();
  const sub = viewSub.peek() ?? WHOLE - 1;
  const inside = sub + direction;
  if (isStep(index) && inside >= 0 && inside < WHOLE) {
    movePlayhead(index, inside);
    return true;
  }
  const next = index + direction;
  if (next < -1 || next >= store.numRecords.peek()) return false;
  if (direction > 0) movePlayhead(next, 0);
  else movePlayhead(next, next === -1 ? null : WHOLE - 1);
  return true;
}

/**
 * Enter the next new record at sub-step `sub` instead of showing it complete; null cancels.
 * @param {number | null} sub
 */
export function enterNextAt(sub) {
  arrival = sub;
}

/** Follow the requested playhead. Called once at page start. */
export function followPlayhead() {
  effect(() => {
    const log = store.log.value;
    const index = store.viewIndex.value;
    const sub = viewSub.value;
    if (
      arrival !== null &&
      log === shownLog &&
      settings.step.peek() === null &&
      index > target.index &&
      isStep(index)
    ) {
      return movePlayhead(index, arrival); // changes a dependency of this effect, which runs again
    }
    const wanted = { index, at: sub === null ? WHOLE : sub + 1 };
    if (log === shownLog && wanted.index === target.index && wanted.at === target.at) return;
    const before = log === shownLog ? target : null;
    shownLog = log;
    target = wanted;
    const isHere = store.log.peek() !== null; // the records of a long log are not loaded, so there is no motion
    begin(before && isHere ? (motionBetween(shown, wanted, moves) ?? motionBetween(before, wanted, moves)) : null);
  });
}

/** @param {Way | null} way */
function begin(way) {
  const now = performance.now();
  const speed = speedNow();
  // if the next record interrupts a motion, records arrive that fast: the next motion takes no longer
  const limit = motion && way?.index !== motion.index ? now - startedAt : STEP_MS / speed;
  const ms = way ? Math.min(way.ms / speed, limit) : 0;
  startedAt = now;
  if (!way || still.peek() || ms < SHORTEST_MS) return rest();
  motion = { ...way, ms, began: null, shares: phaseShares(store.log.peek()?.records[way.index]) };
  show(way.index, way.from);
  moving.value = true;
}

function speedNow() {
  const live = store.connection.peek() !== "replay" && store.following.peek();
  const speed = playSpeed.peek() ?? (live ? store.pace.peek() : null) ?? 1;
  return speed === 0 ? Infinity : Math.max(SLOWEST, speed);
}

function rest() {
  motion = null;
  show(target.index, target.at);
  moving.value = false;
}

/** @param {number} index @param {number} at */
function show(index, at) {
  shown = { index, at };
  batch(() => {
    store.drawing.value = index;
    progress.value = phaseProgress(at);
    const isFollowed = motion !== null && motion.ms >= READABLE_MS && isStep(index);
    playedSub.value = isFollowed ? Math.min(WHOLE - 1, Math.floor(at)) : null;
  });
}

/** Advance to this frame's time (ms). Returns whether more frames are needed. @param {number} now */
export function advance(now) {
  if (!motion) return false;
  motion.began ??= now;
  const t = (now - motion.began) / motion.ms;
  if (t >= 1) rest();
  else show(motion.index, positionAt(motion.from, motion.to, Math.max(0, t), motion.shares));
  return motion !== null;
}
