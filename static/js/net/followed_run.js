// The theater or recording that the page follows: what the server says of it becomes the log, and its arrays are
// fetched.

import { batch, signal } from "../../vendor/signals/signals.js";
import { asBytes, decodeAs } from "../core/codec.js";
import { LIVE_CAPTURES, TraceLog } from "../core/log.js";
import { adoptConfig, adoptModel } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { grouped, t } from "../tell/words.js";
import { askForFacts } from "./facts.js";
import { LayerFetcher } from "./layers.js";
import { tell } from "./trouble.js";

/**
 * @typedef {import("../core/wire.js").Status} Status
 * @typedef {Pick<import("../core/wire.js").Records, "first" | "records" | "captures">} Batch
 */

const MAX_MORE = 1.25; // times the length at which a log is too long, while its survey is made

/**
 * The status of a theater on which a run is made again for this page; null when none is.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Status | null>}
 */
export const forking = signal(null);

/**
 * Whether an id is a recording's, or that of a watched server: one joins it like a theater, and only reads.
 *
 * @param {string | null} id
 */
export const isRecording = (id) => Boolean(id?.startsWith("rec-") || id === ATTACHED);

/** The watched server's: it goes on, and nobody here can change it. */
export const ATTACHED = "attached";

/** Ids and blocks mean something else in another log: nothing that was held or chosen in this one goes along. */
export function leaveLog() {
  if (store.own.log.value) settings.seq.value = null; // the first log is looked at as the address says
  store.selected.value = store.hovered.value = null;
}

export class FollowedRun {
  /** Resets that this page asked for and that are not answered yet. */
  resetting = 0;
  /**
   * The epoch that the last of them began.
   *
   * @type {number | null}
   */
  ownEpoch = null;
  /**
   * The layers that its captures keep first, as the server was told last.
   *
   * @type {number[] | null}
   */
  focused = null;
  #broken = false; // its log cannot be read on
  /** @type {LayerFetcher | null} */
  #layers = null;

  /**
   * @param {string} theater id of a theater or recording
   * @param {number} epoch
   */
  constructor(theater, epoch) {
    this.theater = theater;
    this.epoch = epoch;
  }

  get isRecording() {
    return isRecording(this.theater);
  }

  /**
   * A new epoch: an empty log under its header. The first one is looked at as the address says, a later one at its
   * newest.
   *
   * @param {{epoch: number, header: Uint8Array, num_records: number, large?: boolean}} answer
   */
  begin({ epoch, header, num_records, large = false }) {
    batch(() => {
      if (store.own.log.value || store.own.large.value) store.backToLive();
      leaveLog();
      store.own.large.value = large ? { theater: this.theater, header: decodeAs(asBytes(header), "Header") } : null;
      if (large) {
        store.own.log.value = null;
        store.own.numRecords.value = num_records;
        return;
      }
      const log = new TraceLog(asBytes(header), LIVE_CAPTURES);
      this.epoch = epoch;
      this.#broken = false;
      this.#layers = this.#fetcherFor(log);
      store.own.log.value = log;
      store.own.numRecords.value = 0;
      if (this.isRecording) return;
      const { name } = log.header.model;
      adoptModel(name);
      const facts = store.modelFacts.value;
      if ((facts || settings.model.value) && name !== facts?.model?.name) askForFacts();
      adoptConfig(log.header.engine);
    });
  }

  /** @param {TraceLog} log */
  #fetcherFor(log) {
    const from = `api/theaters/${this.theater}`;
    const query = `epoch=${this.epoch}`;
    return new LayerFetcher(log, {
      address: (layer, records) =>
        layer === null
          ? `${from}/records/${records[0]}/capture?${query}`
          : `${from}/layers/${layer}?${query}&records=${records}`,
      asking: (by) => (store.fetching.value += by),
      arrived: () => (store.captureVersion.value += 1),
    });
  }

  /**
   * Fetch one layer's arrays of a record, or all (null), once. The promise ends when they are here, or could not be
   * fetched.
   *
   * @param {number} index
   * @param {number | null} layer
   */
  async want(index, layer) {
    await this.#layers?.want(index, layer);
  }

  /** @param {Status} message */
  heardStatus(message) {
    if (message.fork?.source === this.theater && !message.fork.forked) forking.value = message;
    if (message.theater !== this.theater || message.epoch < this.epoch) return; // of the run before a reset
    const before = store.status.value;
    store.status.value = message;
    if (store.own.large.value) store.own.numRecords.value = message.num_records; // they do not come
    if (message.error && message.error !== before?.error) tell(message.error, message.objection);
    if (message.notice && message.notice !== before?.notice) store.toast(message.notice);
  }

  /** @param {import("../core/wire.js").Reset} message */
  heardReset(message) {
    if (message.theater !== this.theater || message.epoch === this.epoch) return;
    const mine = this.resetting > 0 || message.epoch === this.ownEpoch;
    const nextTrace = store.status.value?.mode === "recording"; // of a benchmark: it is no reset
    if (!mine) settings.scene.value = null;
    if (!mine && !nextTrace) store.toast(t("connection.reset_by_other"));
    this.begin(message);
  }

  /**
   * The log has become longer than a page keeps. It is taken on, but not much, until the server's survey of it, which
   * may have to be made, knows what is here: so nothing on the page stands still meanwhile.
   *
   * @param {import("../core/wire.js").Large} message
   * @param {(known: {theater: string, from: number, epoch: number}) => Promise<void>} joinAgain
   */
  async heardLarge({ theater, epoch }, joinAgain) {
    const log = store.own.log.peek();
    if (!log || theater !== this.theater || epoch !== this.epoch) return;
    const count = log.length;
    const isHere = () => store.own.log.peek() === log;
    const { surveyReaches } = await import("./surveyed.js");
    await surveyReaches(theater, count, () => isHere() && log.length < MAX_MORE * count);
    // who was cut off joins so when it comes back, and of a run that is gone the server says so
    if (isHere()) await joinAgain({ theater, from: log.length, epoch }).catch(() => {});
  }

  /**
   * The log has become longer than a page keeps, and no more of it comes: as soon as the server can be asked for all
   * that is here, the log is let go. The record that is looked at, and what is held, stay.
   */
  async turnToWindows() {
    const { log, large, numRecords } = store.own;
    const before = log.peek();
    if (!before) return; // it was so already
    const { surveyReaches } = await import("./surveyed.js");
    await surveyReaches(this.theater, before.length, () => log.peek() === before);
    if (log.peek() !== before) return; // another run or file has taken its place
    this.#layers = null;
    batch(() => {
      large.value = { theater: this.theater, header: before.header };
      log.value = null;
      numRecords.value = Math.max(before.length, store.status.peek()?.num_records ?? 0);
      store.toast(t("connection.large", { n: grouped(before.length) }));
    });
  }

  /**
   * Append what is new in a batch.
   *
   * @param {import("../core/wire.js").Records} message
   * @returns {boolean} false: the log contradicts itself, and is to be read again from its beginning
   */
  heardRecords(message) {
    const log = store.own.log.value;
    if (!log || this.#broken || message.theater !== this.theater || message.epoch !== this.epoch) return true;
    try {
      append(log, message);
    } catch (error) {
      console.error(error);
      const { message: reason } = /** @type {Error} */ (error);
      store.toast(t(this.isRecording ? "error.recording" : "error.log", { reason }), "error");
      if (!this.isRecording) return false;
      this.#broken = true; // the file says so, and would say so again: what came before is a run all the same
    }
    store.own.numRecords.value = log.length;
    return true;
  }
}

/**
 * Append what is new to the page's own log, which nobody else adds to.
 *
 * @param {Batch} batch
 */
export function extendOwn(batch) {
  const log = store.own.log.value;
  if (!log) return;
  append(log, batch);
  store.own.numRecords.value = log.length;
}

/** @param {TraceLog} log @param {Batch} batch */
function append(log, { first, records, captures }) {
  records.forEach((bytes, i) => {
    const index = first + i;
    const captured = captures?.[i];
    if (index === log.length) log.append(asBytes(bytes), captured ? asBytes(captured) : null);
    else if (index > log.length) throw new Error(`record ${index} came where ${log.length} belongs`);
  });
}
