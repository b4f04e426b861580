// Playhead: the drawn position between two records, as a pure function of start, target and time.
//
// It is a record and the progress within it: `at` runs from 0 (nothing shown) to 6 (complete), one unit per
// phase. The setting `sub` pins it inside a step (k: shown up to the end of phase k, null: complete). Painters read
// only `phases()` and need not distinguish forward, backward, interrupted and pinned motion.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";
import * as store from "./store.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */

/**
 * @typedef {"schedule" | "allocate" | "qkv" | "write" | "attend" | "sample"} Phase
 * @typedef {Record<Phase, number>} Progress
 * @typedef {{index: number, at: number}} Playhead
 * @typedef {{index: number, from: number, to: number, ms: number}} Motion
 */

/** Sub-steps of a step, in order. @type {readonly Phase[]} */
export const PHASES = ["schedule", "allocate", "qkv", "write", "attend", "sample"];

const COMPLETE = PHASES.length;
const PHASE_MS = 350; // of one sub-step at speed 1
const STEP_MS = 900; // of a step at speed 1
const MIN_MOTION_MS = 60; // shorter motions are skipped
const MIN_SPEED = 0.25; // steps per second; slower runs do not stretch the motion further
const READABLE_MS = 1500; // minimum motion whose sub-steps are long enough to read a sentence

// ── Pure ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Return the progress of each phase by name, in [0, 1] and eased out, for a record shown up to `at`.
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
  const allocates = (record?.ops ?? []).some((op) => ALLOCATING.has(op.type));
  return [0.6, allocates ? 1 : 0, 1, 1.5, 1.4, 1]; // in the fourth phase K and V move across the page
}

const ALLOCATING = new Set(["allocate", "share", "evict", "copy", "fork"]);

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
  for (let i = 0; i < COMPLETE; i++) {
    if (left < shares[i]) return Math.max(low, Math.min(high, i + left / shares[i]));
    left -= shares[i];
  }
  return high;
}

/**
 * Return the motion from one playhead to another: `{index, from, to, ms}` at speed 1. `index` is the record drawn
 * during it (backward, the later one). Returns null for distances longer than a step, which are shown at once.
 * `moves(i)` is false for records that are neither steps nor transfers; they have no motion and are skipped.
 * @param {Playhead} a
 * @param {Playhead} b
 * @param {(index: number) => boolean} moves
 * @returns {Motion | null}
 */
export function motionBetween(a, b, moves) {
  /** @type {(low: number, high: number) => boolean} */
  const adjacent = (low, high) => {
    for (let i = low + 1; i < high; i++) if (moves(i)) return false;
    return moves(high);
  };
  /** @type {Omit<Motion, "ms"> | null} */
  let found = null;
  if (a.index === b.index) found = moves(a.index) ? { index: a.index, from: a.at, to: b.at } : null;
  else if (a.index < b.index) found = adjacent(a.index, b.index) ? { index: b.index, from: 0, to: b.at } : null;
  else if (b.at === COMPLETE) found = adjacent(b.index, a.index) ? { index: a.index, from: a.at, to: 0 } : null;
  return found && { ...found, ms: Math.min(STEP_MS, PHASE_MS * Math.abs(found.to - found.from)) };
}

// ── The page's playhead ──────────────────────────────────────────────────────────────────────────────────────────────

/** Whether the system prefers reduced motion. */
export const reducedMotion = signal(false);
/** Steps per second at which a recording is played, or null. Set by the transport. @type {Signal<number | null>} */
export const playSpeed = signal(null);
/** Whether a motion is running. */
export const moving = signal(false);
/** Whether motion is disabled and new content fades in instead. */
export const still = computed(() => reducedMotion.value || !settings.motion.value);
/** Index of the drawn record: `viewIndex`, or during a backward motion the later one. */
export const drawnIndex = store.drawnIndex;

/**
 * Current sub-step of a slow motion, 0…5, which the status shows. Null at rest and in motions too fast to read.
 * @type {Signal<number | null>}
 */
export const playedSub = signal(null);

const progress = signal(phaseProgress(COMPLETE));
let shown = { index: -1, at: COMPLETE }; // on the screen
let target = shown; // end of the motion
/** @type {(Motion & {began: number | null, shares: number[]}) | null} */
let motion = null;
let startedAt = 0; // when the last motion or jump started
/** @type {number | null} */
let entrySub = null; // sub-step at which the next record is entered
/** @type {import("../core/log.js").TraceLog | null} */
let shownLog = null;

/**
 * Return the progress of each phase of the drawn record by name, each in [0, 1]; all are 1 when it is complete and at
 * rest. Reading it subscribes the reader to every frame of a motion, so prefer painters over components.
 */
export const phases = () => progress.value;

const parts = /** @type {Record<Phase, import("../../vendor/signals/signals.js").ReadonlySignal<number>>} */ (
  Object.fromEntries(PHASES.map((name) => [name, computed(() => progress.value[name])]))
);

/** Return the progress of one phase. A painter that reads only it is idle in other phases. @param {Phase} name */
export const phase = (name) => parts[name].value;

/** Return the progress of all phases without subscribing to frames. */
export const phasesNow = () => progress.peek();

/** @param {number} index */
const isStep = (index) => store.log.peek()?.records[index]?.kind === "step";

/** Return whether record `index` has a motion. @param {number} index */
const moves = (index) => isStep(index) || store.log.peek()?.records[index]?.kind === "transfer";

/** Shown sub-step of the requested record, 0…5; null for a complete record or one without sub-steps. */
export const viewSub = computed(() => {
  const index = store.viewIndex.value;
  const sub = settings.sub.value;
  return sub === null || store.log.value?.records[index]?.kind !== "step"
    ? null
    : Math.max(0, Math.min(sub, COMPLETE - 1));
});

/**
 * Show record `index` up to sub-step `sub` (null: complete; the newest record is followed).
 * @param {number} index
 * @param {number | null} [sub]
 */
export function movePlayhead(index, sub = null) {
  entrySub = null;
  if (sub === null || !isStep(index)) return store.goTo(index);
  batch(() => {
    settings.step.value = Math.max(-1, Math.min(index, store.numRecords.peek() - 1));
    settings.sub.value = Math.max(0, Math.min(sub, COMPLETE - 1));
  });
}

/** Move one sub-step forward (+1) or back (−1). Returns false at the ends of the log. @param {number} direction */
export function stepPlayhead(direction) {
  const index = store.viewIndex.peek();
  const sub = viewSub.peek() ?? COMPLETE - 1;
  const target = sub + direction;
  if (isStep(index) && target >= 0 && target < COMPLETE) {
    movePlayhead(index, target);
    return true;
  }
  const next = index + direction;
  if (next < -1 || next >= store.numRecords.peek()) return false;
  if (direction > 0) movePlayhead(next, 0);
  else movePlayhead(next, next === -1 ? null : COMPLETE - 1);
  return true;
}

/**
 * Enter the next new record at sub-step `sub` instead of showing it complete; null cancels.
 * @param {number | null} sub
 */
export function enterNextAt(sub) {
  entrySub = sub;
}

/** Follow the requested playhead. Called once at page start. */
export function followPlayhead() {
  effect(() => {
    const log = store.log.value;
    const index = store.viewIndex.value;
    const sub = viewSub.value;
    if (
      entrySub !== null &&
      log === shownLog &&
      settings.step.peek() === null &&
      index > target.index &&
      isStep(index)
    ) {
      return movePlayhead(index, entrySub); // changes a dependency of this effect, which runs again
    }
    const requested = { index, at: sub === null ? COMPLETE : sub + 1 };
    if (log === shownLog && requested.index === target.index && requested.at === target.at) return;
    const before = log === shownLog ? target : null;
    shownLog = log;
    target = requested;
    const isLoaded = store.log.peek() !== null; // the records of a long log are not loaded, so there is no motion
    begin(
      before && isLoaded ? (motionBetween(shown, requested, moves) ?? motionBetween(before, requested, moves)) : null,
    );
  });
}

/** @param {Motion | null} next */
function begin(next) {
  const now = performance.now();
  const speed = speedNow();
  // a record that interrupts a motion shows how fast records arrive; its motion takes no longer
  const limit = motion && next?.index !== motion.index ? now - startedAt : STEP_MS / speed;
  const ms = next ? Math.min(next.ms / speed, limit) : 0;
  startedAt = now;
  if (!next || still.peek() || ms < MIN_MOTION_MS) return endMotion();
  motion = { ...next, ms, began: null, shares: phaseShares(store.log.peek()?.records[next.index]) };
  show(next.index, next.from);
  moving.value = true;
}

function speedNow() {
  const live = store.connection.peek() !== "replay" && store.following.peek();
  const speed = playSpeed.peek() ?? (live ? store.pace.peek() : null) ?? 1;
  return speed === 0 ? Infinity : Math.max(MIN_SPEED, speed);
}

function endMotion() {
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
    playedSub.value = isFollowed ? Math.min(COMPLETE - 1, Math.floor(at)) : null;
  });
}

/** Advance to this frame's time (ms). Returns whether more frames are needed. @param {number} now */
export function advance(now) {
  if (!motion) return false;
  motion.began ??= now;
  const t = (now - motion.began) / motion.ms;
  if (t >= 1) endMotion();
  else show(motion.index, positionAt(motion.from, motion.to, Math.max(0, t), motion.shares));
  return motion !== null;
}
