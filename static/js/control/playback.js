// Movement through the loaded log: playing forwards and backwards, and jumping to a record, step or event. Playing
// never sends requests to the engine. It moves by whole records, or by sub-steps while one is shown.

import { computed, effect, signal } from "../../vendor/signals/signals.js";
import { marksIn, nearest, nearestOfAny, recordOfStep, tokensOf } from "../core/events.js";
import { enterNextAt, movePlayhead, playSpeed, stepPlayhead, viewSub } from "../state/playhead.js";
import { markPlace, settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { player, playerBelow } from "./player.js";

/** 1 forwards, −1 backwards, 0 if stopped. */
export const playing = signal(0);
/**
 * Kind of event that "next" and "previous" search for: `any`, one of core/events.js, or `token` (of the shown
 * sequence).
 */
export const eventKind = signal("any");

// ── Pure ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Return the time of the tick after `last`: one `period` later, or `now` if the page could not keep up.
 * @param {number} last
 * @param {number} now
 * @param {number} period
 */
export function nextTick(last, now, period) {
  return now - last < 2 * period ? last + period : now;
}

/**
 * Return the action of the main button. `run` and `pause` control the engine, `play` and `stop` the playback. The
 * engine is controlled only at the newest record of a live run.
 * @param {{live: boolean, following: boolean, running: boolean, playing: number}} now
 */
export function mainAction({ live, following, running, playing: direction }) {
  if (direction) return "stop";
  if (!live || !following) return "play";
  return running ? "pause" : "run";
}

/**
 * Return the record at `tenths` tenths of `count` records: 0 is before the first.
 * @param {number} tenths
 * @param {number} count
 */
export const recordAtTenth = (tenths, count) => Math.round((tenths / 10) * count) - 1;

// ── Playing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const live = computed(() => player.value.live());

export const main = computed(() =>
  mainAction({
    live: live.value,
    following: store.following.value,
    running: player.value.running(),
    playing: playing.value,
  }),
);

/** Perform the action of the main button and the space bar. */
export function doMain() {
  const { run, pause } = player.peek();
  return { run, pause, play, stop }[main.peek()]();
}

/** Play the loaded log, from the beginning if its last record is shown. */
export function play(direction = 1) {
  if (!store.numRecords.peek()) return;
  const atEnd =
    store.viewIndex.peek() === store.numRecords.peek() - 1 && (viewSub.peek() === null || store.following.peek());
  if (direction > 0 && atEnd) {
    if (live.peek()) return;
    store.goTo(-1);
  }
  playing.value = direction;
}

export function stop() {
  playing.value = 0;
}

/** Advance the playback on schedule. Called once at page start. */
export function followPlaying() {
  let last = 0;
  let frame = 0;
  /** @param {number} now */
  const onFrame = (now) => {
    const speed = settings.speed.peek();
    if (now - last >= (speed ? 1000 / speed : 0)) {
      last = nextTick(last, now, speed ? 1000 / speed : 0);
      if (!move(playing.peek())) return onEnd();
    }
    frame = requestAnimationFrame(onFrame);
  };
  effect(() => {
    cancelAnimationFrame(frame);
    const direction = playing.value;
    if (!direction) return;
    last = -Infinity; // the first move is immediate
    frame = requestAnimationFrame(onFrame);
  });
  effect(() => {
    playSpeed.value = playing.value ? settings.speed.value : null;
  });
  effect(() => {
    store.log.value; // another run stops the playback
    stop();
  });
}

/** Move by one record or sub-step. Returns false at the end. @param {number} direction */
function move(direction) {
  if (viewSub.peek() !== null) return stepPlayhead(direction);
  const next = store.viewIndex.peek() + direction;
  if (next < -1 || next >= store.numRecords.peek()) return false;
  store.goTo(next);
  return true;
}

function onEnd() {
  if (playing.peek() > 0 && !isReplay()) store.backToLive(); // follow further records
  stop();
}

// ── Jumping ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Stop playing and move one record forward or back. @param {number} direction */
export function stepRecord(direction) {
  stop();
  store.goTo(Math.max(-1, store.viewIndex.peek() + direction));
}

/** Stop playing and move one sub-step forward or back. @param {number} direction */
export function stepSub(direction) {
  stop();
  stepPlayhead(direction);
}

/**
 * Handle a presenter's "next": move forward. At the newest record of a live run, take a step; at the end of a lesson's
 * race, continue the lesson.
 */
export async function next() {
  stop();
  if (move(1)) return;
  if (!live.peek()) return void (await playerBelow()?.step());
  if (viewSub.peek() !== null) enterNextAt(0);
  if (!(await player.peek().step())) enterNextAt(null);
}

export function previous() {
  stop();
  return move(-1);
}

/** Jump to record `index`. The browser's Back returns to the current one. @param {number} index */
export function jumpTo(index) {
  stop();
  const last = store.numRecords.peek() - 1;
  const to = Math.max(-1, Math.min(index, last));
  if (to === store.viewIndex.peek() && viewSub.peek() === null) return;
  markPlace();
  store.goTo(to);
}

/** @param {number} tenths */
export const jumpToTenth = (tenths) => jumpTo(recordAtTenth(tenths, store.numRecords.peek()));

/** Jump to the record of engine step `step`. Returns false if the log does not contain it. @param {number} step */
export function jumpToStep(step) {
  const index = recordOfStep(store.log.peek(), step);
  if (index !== null) jumpTo(index);
  return index !== null;
}

/**
 * Return the record of the nearest event of `kind` in a direction, or null.
 * @param {number} index
 * @param {number} direction
 */
export function eventFrom(index, direction, kind = eventKind.value) {
  const log = store.log.value;
  if (!log) return null;
  if (kind === "any") return nearestOfAny(log, index, direction);
  return nearest(recordsOf(kind), index, direction);
}

/** Return the records of a kind, ascending. @param {string} kind */
export function recordsOf(kind) {
  const log = store.log.value;
  if (!log) return [];
  return kind === "token" ? tokensOf(log, store.shownSeq.value) : (marksIn(log).get(kind) ?? []);
}

/**
 * Jump to the next (+1) or previous (−1) event of the chosen kind. Returns false if there is none.
 * @param {number} direction
 */
export function jumpToEvent(direction, kind = eventKind.peek()) {
  const to = eventFrom(store.viewIndex.peek(), direction, kind);
  if (to !== null) jumpTo(to);
  return to !== null;
}

/** Show sub-step `sub` of the shown record; if it is already shown, show the complete record. @param {number} sub */
export function chooseSub(sub) {
  stop();
  const index = store.viewIndex.peek();
  if (viewSub.peek() === sub) store.goTo(index);
  else movePlayhead(index, sub);
}

const isReplay = () => store.connection.peek() === "replay";

/** Jump to the newest record, and follow a live run. */
export function backToLive() {
  if (isReplay()) return jumpTo(store.numRecords.peek() - 1);
  stop();
  if (!store.following.peek()) markPlace();
  store.backToLive();
}
