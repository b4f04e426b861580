// The motion model: what the page draws between two records, as a pure function of where it was, where it goes and the
// time.
//
// A *moment* is a record and how far it is shown: `at` runs from 0 (nothing of it yet) to 6 (the record whole), one
// unit a phase. The setting `sub` pins a moment inside a step (k = shown as far as phase k is done, null = whole).
// Painters read `phases()` alone; forward, backward, interrupted and pinned are the same to them.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";
import * as store from "./store.js";

/**
 * @typedef {"schedule" | "allocate" | "qkv" | "write" | "attend" | "sample"} Phase
 * @typedef {Record<Phase, number>} Progress
 * @typedef {{index: number, at: number}} Moment
 * @typedef {{index: number, from: number, to: number, ms: number}} Way
 */

/**
 * The sub-steps inside a step, in order.
 *
 * @type {readonly Phase[]}
 */
export const PHASES = ["schedule", "allocate", "qkv", "write", "attend", "sample"];

const WHOLE = PHASES.length;
const PHASE_MS = 350; // one sub-step at speed 1
const STEP_MS = 900; // a whole step at speed 1
const SHORTEST_MS = 60; // below this nothing moves

// ── Pure ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Progress of each phase by name, in [0, 1] and eased (fast, then a pause), when a record is shown as far as `at`.
 *
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
 * How long each phase of `record` takes of a motion through several, relative to the others.
 *
 * @param {import("../core/trace.js").StepRecord | undefined} record
 */
export function phaseShares(record) {
  if (record?.kind === "transfer") return [0.4, 1.6, 0, 0, 0, 0]; // given back; come
  const takes = (record?.ops ?? []).some((op) => TAKING.has(op.type));
  return [0.6, takes ? 1 : 0, 1, 1.5, 1.4, 1]; // in the fourth K and V fly a long way
}

const TAKING = new Set(["allocate", "share", "evict", "copy", "fork"]);

/**
 * Where between `from` and `to` (both in [0, 6]) a motion is after the share `t` of its time.
 *
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
 * The motion from one moment to another, `{index, at}` each: `{index, from, to, ms}` at speed 1, where `index` is the
 * record that is drawn meanwhile (going back, the later one); null when the way is longer than a step and is shown at
 * once. `moves(i)`: records that are neither steps nor transfers have nothing to move and are passed over.
 *
 * @param {Moment} a
 * @param {Moment} b
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

// ── The page's moment ────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether the system asks for no movement. */
export const reducedMotion = signal(false);
/**
 * Steps a second at which a recording is being played; null when none is. The transport sets it.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<number | null>}
 */
export const playSpeed = signal(null);
/** Whether something moves now. */
export const moving = signal(false);
/** No movement at all: what is new fades in. */
export const still = computed(() => reducedMotion.value || !settings.motion.value);
/** Index of the record being drawn: that of `viewIndex`, or going back the later one until the motion ends. */
export const drawnIndex = store.drawnIndex;

const progress = signal(phaseProgress(WHOLE));
let shown = { index: -1, at: WHOLE }; // what is on the screen
let target = shown; // where it goes
/** @type {(Way & {began: number | null, shares: number[]}) | null} */
let motion = null;
let startedAt = 0; // when the last motion or jump began
/** @type {number | null} */
let arrival = null; // the sub at which the next record is entered
/** @type {import("../core/log.js").TraceLog | null} */
let shownLog = null;

/**
 * Progress of each phase of the record being drawn, by name, each in [0, 1]; all 1 when it is shown whole and rests.
 * Read in an effect or a painter's `watch` it asks for every frame of a motion; in a component too: prefer painters.
 */
export const phases = () => progress.value;

const parts = /** @type {Record<Phase, import("../../vendor/signals/signals.js").ReadonlySignal<number>>} */ (
  Object.fromEntries(PHASES.map((name) => [name, computed(() => progress.value[name])]))
);

/**
 * Progress of one phase: a painter that watches only this rests while the other phases move.
 *
 * @param {Phase} name
 */
export const phase = (name) => parts[name].value;

/** All of them without asking for the frames to come. */
export const phasesNow = () => progress.peek();

/** @param {number} index */
const isStep = (index) => store.log.peek()?.records[index]?.kind === "step";

/** Whether something moves in record `index`. @param {number} index */
const moves = (index) => isStep(index) || store.log.peek()?.records[index]?.kind === "transfer";

/** The sub-step shown of the record asked for: 0…5, or null for the record whole or without sub-steps. */
export const viewSub = computed(() => {
  const index = store.viewIndex.value;
  const sub = settings.sub.value;
  return sub === null || store.log.value?.records[index]?.kind !== "step"
    ? null
    : Math.max(0, Math.min(sub, WHOLE - 1));
});

/**
 * Show record `index` as far as sub-step `sub` (null: whole, and the newest record is followed).
 *
 * @param {number} index
 * @param {number | null} [sub]
 */
export function goToMoment(index, sub = null) {
  arrival = null;
  if (sub === null || !isStep(index)) return store.goTo(index);
  batch(() => {
    settings.step.value = Math.max(-1, Math.min(index, store.numRecords.peek() - 1));
    settings.sub.value = Math.max(0, Math.min(sub, WHOLE - 1));
  });
}

/**
 * One sub-step on (+1) or back (−1). False when there is none: before the first record, after the newest one's last.
 *
 * @param {number} direction
 */
export function stepMoment(direction) {
  const index = store.viewIndex.peek();
  const sub = viewSub.peek() ?? WHOLE - 1;
  const inside = sub + direction;
  if (isStep(index) && inside >= 0 && inside < WHOLE) {
    goToMoment(index, inside);
    return true;
  }
  const next = index + direction;
  if (next < -1 || next >= store.numRecords.peek()) return false;
  if (direction > 0) goToMoment(next, 0);
  else goToMoment(next, next === -1 ? null : WHOLE - 1);
  return true;
}

/**
 * The next record that comes is entered at sub-step `sub` instead of being shown whole; null takes it back.
 *
 * @param {number | null} sub
 */
export function enterNextAt(sub) {
  arrival = sub;
}

/** Follow the moment that is asked for. Called once, when the page begins. */
export function followMoment() {
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
      return goToMoment(index, arrival); // changes what this effect reads: it runs again
    }
    const wanted = { index, at: sub === null ? WHOLE : sub + 1 };
    if (log === shownLog && wanted.index === target.index && wanted.at === target.at) return;
    const before = log === shownLog ? target : null;
    shownLog = log;
    target = wanted;
    const isHere = store.log.peek() !== null; // of a long log no record is, and nothing moves
    begin(before && isHere ? (motionBetween(shown, wanted, moves) ?? motionBetween(before, wanted, moves)) : null);
  });
}

/** @param {Way | null} way */
function begin(way) {
  const now = performance.now();
  const speed = speedNow();
  // a motion cut short by the next record says how fast one goes: the next takes no longer than that
  const limit = motion && way?.index !== motion.index ? now - startedAt : STEP_MS;
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
  return speed === 0 ? Infinity : Math.max(1, speed);
}

function rest() {
  motion = null;
  show(target.index, target.at);
  moving.value = false;
}

/**
 * @param {number} index
 * @param {number} at
 */
function show(index, at) {
  shown = { index, at };
  batch(() => {
    store.drawing.value = index;
    progress.value = phaseProgress(at);
  });
}

/**
 * Move on to the time of this frame (milliseconds). Whether more frames are needed.
 *
 * @param {number} now
 */
export function advance(now) {
  if (!motion) return false;
  motion.began ??= now;
  const t = (now - motion.began) / motion.ms;
  if (t >= 1) rest();
  else show(motion.index, positionAt(motion.from, motion.to, Math.max(0, t), motion.shares));
  return motion !== null;
}
