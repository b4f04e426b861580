// Another run or recording on stage, by the reader's choice or by Back and Forward; of a recording that was just opened
// where it is shown first, and the invitation to play it from there.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { firstDecodes, tellingEvent, tellingRecord } from "../core/telling_record.js";
import { wantLayer } from "../net/commands.js";
import { session } from "../net/session.js";
import { markPlace, parseAddress, settings } from "../state/settings.js";
import { isSite } from "../state/site.js";
import * as store from "../state/store.js";
import { opening } from "./opening.js";
import { play, playing } from "./playback.js";

/**
 * The record from which a recording that was just opened may be played; null: none is offered.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<number | null>}
 */
const offered = signal(null);

/** Whether a button in the middle of the stage offers to play: until one goes elsewhere, or plays. */
export const invited = computed(
  () => store.ownIsShown.value && offered.value !== null && offered.value === store.viewIndex.value && !playing.value,
);

/**
 * Put a run or a recording on stage, from record `step` (null: its newest). Back comes back to what was there.
 *
 * @param {string} id
 * @param {number | null} [step]
 */
export function openRun(id, step = null) {
  markPlace();
  return session.watch(id, step);
}

/** The live run on stage again. */
export function openLive() {
  markPlace();
  return session.toLive();
}

/** Follow an address of the history to the run that it names. Called once, when the page begins. */
export function followHistory() {
  addEventListener("popstate", () => {
    const found = /** @type {{recording?: string, theater?: string, step?: number}} */ (parseAddress(location));
    const wanted = found.recording ?? found.theater ?? null;
    const isGone = session.state === "gone" && wanted === settings.theater.peek();
    if (isGone || wanted === (isSite ? settings.recording.peek() : (session.run?.theater ?? null))) return;
    if (wanted) session.watch(wanted, found.step ?? null);
    else if (!isSite) session.toLive();
  });
}

/** Play from where the recording was opened. */
export function accept() {
  offered.value = null;
  play();
}

/**
 * Show each recording first at its telling record, once it is all here; a link that names a record is obeyed, and the
 * opening and the first look have places of their own. Called once, when the page begins.
 */
export function followOpened() {
  /** @type {import("../core/log.js").TraceLog | null} */
  let seen = null;
  effect(() => {
    const [log, count, connection] = [store.own.log.value, store.own.numRecords.value, store.connection.value];
    if (log === seen) return;
    if (!log) return void (seen = null); // one that became long is let go
    if (connection === "live") seen = log; // a run that is followed; when it is gone it is no recording either
    const whole = store.status.value?.num_records ?? log.length; // a file is here at once
    if (connection !== "replay" || !count || count < whole) return;
    seen = log;
    offered.value = null;
    if (opening.peek() || settings.distance.peek() !== "bench") return; // they tell a run from where they left it
    if (settings.step.peek() === null && !log.header.observed) open(log); // what is watched is shown at its newest
  });
}

/**
 * Show a log near its telling record at once, and there when the arrays say which one it is.
 *
 * @param {import("../core/log.js").TraceLog} log
 */
async function open(log) {
  const [layer, head] = [store.layer.peek(), store.head.peek()];
  const near = tellingRecord(log, layer, head);
  store.goTo(near);
  if (tellingEvent(log) === null) await Promise.all(firstDecodes(log).map((index) => wantLayer(index, layer)));
  const elsewhere = store.own.log.peek() !== log || store.viewIndex.peek() !== near || !store.ownIsShown.peek();
  if (elsewhere) return; // one went there meanwhile
  const record = tellingRecord(log, layer, head);
  batch(() => {
    store.goTo(record);
    offered.value = record;
  });
}
