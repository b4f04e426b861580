// Opening another run or recording, also by Back and Forward, and the first view of a recording: the record at which it
// is shown, and the offer to play from there.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { marksIn } from "../core/events.js";
import { phaseOf } from "../core/metrics.js";
import { attentionRow } from "../core/sequence_view.js";
import { requestLayer } from "../net/commands.js";
import { session } from "../net/session.js";
import { markPlace, parseAddress, settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { isSite } from "../state/without_server.js";
import { opening } from "./opening.js";
import { play, playing } from "./playback.js";

/** @import {TraceLog} from "../core/log.js" */

/**
 * Record of a newly opened recording from which playing is offered, or null.
 * @type {import("../../vendor/signals/signals.js").Signal<number | null>}
 */
const offered = signal(null);

/** Whether a button in the middle of the stage offers to play. It disappears when the user plays or goes elsewhere. */
export const invited = computed(
  () => store.ownIsShown.value && offered.value !== null && offered.value === store.viewIndex.value && !playing.value,
);

/**
 * Show a run or a recording at record `step` (null: its newest). Back returns to the previous one.
 * @param {string} id
 * @param {number | null} [step]
 */
export function openRun(id, step = null) {
  markPlace();
  return session.watch(id, step);
}

/** Show the live run. */
export function openLive() {
  markPlace();
  return session.toLive();
}

/** Show the run that an address of the history names. Called once, at page start. */
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

/** Play from the record at which the recording was opened. */
export function accept() {
  offered.value = null;
  play();
}

/**
 * Show each recording first at its initial record, once it is loaded. A link that names a record takes precedence,
 * and the opening and the intro view have their own positions. Called once at page start.
 */
export function followOpened() {
  /** @type {TraceLog | null} */
  let handled = null;
  effect(() => {
    const [log, count, connection] = [store.own.log.value, store.own.numRecords.value, store.connection.value];
    if (log === handled) return;
    if (!log) return void (handled = null); // a log that became too long is unloaded
    if (connection === "live") handled = log; // a followed run, which is not a recording even if its connection is lost
    const total = store.status.value?.num_records ?? log.length; // a file is loaded at once
    if (connection !== "replay" || !count || count < total) return;
    handled = log;
    offered.value = null;
    if (opening.peek() || settings.viewMode.peek() !== "workspace") return; // these views choose their own position
    // a monitored run is shown at its newest record
    if (settings.step.peek() === null && !log.header.observed) open(log);
  });
}

/** Show a log at its initial record, determined first without arrays and then with them. @param {TraceLog} log */
async function open(log) {
  const [layer, head] = [store.layer.peek(), store.head.peek()];
  const provisional = initialRecord(log, layer, head);
  store.goTo(provisional);
  if (initialEvent(log) === null) await Promise.all(firstDecodes(log).map((index) => requestLayer(index, layer)));
  const hasLeft = store.own.log.peek() !== log || store.viewIndex.peek() !== provisional || !store.ownIsShown.peek();
  if (hasLeft) return; // the user went elsewhere
  const record = initialRecord(log, layer, head);
  batch(() => {
    store.goTo(record);
    offered.value = record;
  });
}

/** @typedef {import("../core/log.js").TraceLog} Log */

const MAX_DECODES = 24; // decode steps whose attention rows are examined
const MIN_KEYS = 8; // of a broad row
const MAX_WEIGHT = 0.5; // of a broad row's largest weight

/**
 * Return the first informative record that needs no arrays: the first preemption, else the first load from outside the
 * pool, else the first prefix cache hit; null if there is none.
 * @param {Log} log
 */
export function initialEvent(log) {
  const marks = marksIn(log);
  return marks.get("preempt")?.[0] ?? marks.get("load")?.[0] ?? marks.get("hit")?.[0] ?? null;
}

/** Return the first decode steps, which are searched for a broad row. @param {Log} log */
export function firstDecodes(log) {
  const found = [];
  for (const record of log.records) {
    if (found.length === MAX_DECODES) break;
    if (record.kind === "step" && phaseOf(record) === "decode") found.push(record.index);
  }
  return found;
}

/**
 * Return the record at which a recording is first shown: that of `initialEvent`; else the first decode step with a
 * broad row in `layer` and `head` (8 keys or more, none with more than half of the weight); else the first decode step
 * (also if its arrays are not loaded), else the last record. -1 for an empty log.
 * @param {Log} log
 * @param {number} layer
 * @param {number} head
 */
export function initialRecord(log, layer, head) {
  const decodes = firstDecodes(log);
  const broad = decodes.find((index) => {
    const [{ seq_id, context_len }] = log.records[index].batch ?? [];
    const row = attentionRow(log, index, seq_id, layer, head, context_len - 1);
    return row !== null && row.weights.length >= MIN_KEYS && row.max <= MAX_WEIGHT;
  });
  return initialEvent(log) ?? broad ?? decodes[0] ?? log.length - 1;
}
