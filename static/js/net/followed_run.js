// Session or recording that the page follows. Messages of the server extend its log, and its arrays are fetched.

import { batch, signal } from "../../vendor/signals/signals.js";
import { asBytes, decodeAs } from "../core/codec.js";
import { LIVE_CAPTURES, TraceLog } from "../core/log.js";
import { refusalText } from "../i18n/language.js";
import { grouped, t } from "../i18n/words.js";
import { classState } from "../state/classroom.js";
import { adoptConfig, adoptModel } from "../state/run_settings.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { showError } from "./errors.js";
import { askForFacts } from "./facts.js";
import { LayerFetcher } from "./layers.js";

/** @import {Records, Status} from "../core/wire.js" */

/** @typedef {Pick<Records, "first" | "records" | "captures">} Batch */

const MAX_GROWTH = 1.25; // of a log that is too long, while its index is built

/**
 * Status of a fork that is being replayed for this page; null if there is none.
 * @type {import("../../vendor/signals/signals.js").Signal<Status | null>}
 */
export const forking = signal(null);

/**
 * Return whether an id names a recording or a monitored server. Both are joined like a session, but are read-only.
 * @param {string | null} id
 */
export const isRecording = (id) => Boolean(id?.startsWith("rec-") || id === ATTACHED);

/** Id of the monitored server's run, which grows and cannot be changed by the page. */
export const ATTACHED = "attached";

/** Reset selection and choices before another log is shown: ids and blocks have a different meaning there. */
export function leaveLog() {
  if (store.own.log.value) settings.seq.value = null; // the address determines how the first log is shown
  store.selected.value = store.hovered.value = null;
}

export class FollowedRun {
  /** Number of resets requested by this page that are not acknowledged. */
  resetting = 0;
  /** Epoch that the last of them started. @type {number | null} */
  ownEpoch = null;
  /** Layers last sent to the server as preferred for captures. @type {number[] | null} */
  focused = null;
  #broken = false; // whether further records cannot be appended
  /** @type {LayerFetcher | null} */
  #layers = null;

  /** @param {string} theater id of a session or recording @param {number} epoch */
  constructor(theater, epoch) {
    this.theater = theater;
    this.epoch = epoch;
  }

  get isRecording() {
    return isRecording(this.theater);
  }

  /**
   * Start a new epoch with an empty log. The address determines how the first epoch is shown; later ones follow the
   * newest record.
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
      onFetch: (by) => (store.fetching.value += by),
      arrived: () => (store.captureVersion.value += 1),
    });
  }

  /**
   * Fetch one layer's arrays of a record, or all layers (null), once. The promise resolves when they arrive or could
   * not be fetched.
   * @param {number} index
   * @param {number | null} layer
   */
  async requestArrays(index, layer) {
    await this.#layers?.request(index, layer);
  }

  /** @param {Status} message */
  onStatus(message) {
    if (message.fork?.source === this.theater && !message.fork.forked) forking.value = message;
    if (message.theater !== this.theater || message.epoch < this.epoch) return; // sent before a reset
    const before = store.status.value;
    store.status.value = message;
    if (store.own.large.value) store.own.numRecords.value = message.num_records; // the records are not sent
    if (message.error && message.error !== before?.error)
      showError(refusalText({ message: message.error, said: message.said }), message.objection);
    if (message.notice && message.notice !== before?.notice) store.toast(message.notice);
  }

  /** @param {import("../core/wire.js").Reset} message */
  onReset(message) {
    if (message.theater !== this.theater || message.epoch === this.epoch) return;
    const isOwn = this.resetting > 0 || message.epoch === this.ownEpoch;
    const nextTrace = store.status.value?.mode === "recording"; // a benchmark's next trace is not a reset
    if (!isOwn) settings.scene.value = null;
    const isLed = classState.peek()?.theater === this.theater; // a lesson of a class may start new runs
    if (!isOwn && !nextTrace && !isLed) store.toast(t("connection.reset_by_other"));
    this.begin(message);
  }

  /**
   * Handle a log that has become too long for a page. The page continues to append, within a limit, until the server's
   * index covers the loaded records.
   * @param {import("../core/wire.js").Large} message
   * @param {(known: {theater: string, from: number, epoch: number}) => Promise<void>} rejoin
   */
  async onLarge({ theater, epoch }, rejoin) {
    const log = store.own.log.peek();
    if (!log || theater !== this.theater || epoch !== this.epoch) return;
    const count = log.length;
    const isCurrent = () => store.own.log.peek() === log;
    const { indexReaches } = await import("./log_index.js");
    await indexReaches(theater, count, () => isCurrent() && log.length < MAX_GROWTH * count);
    // after a lost connection, the reconnect does this; the server reports a missing run
    if (isCurrent()) await rejoin({ theater, from: log.length, epoch }).catch(() => {});
  }

  /**
   * Switch to windows of a log that has become too long to load. Releases the log as soon as the server can answer
   * queries for all loaded records. The displayed record and the selection stay.
   */
  async turnToWindows() {
    const { log, large, numRecords } = store.own;
    const before = log.peek();
    if (!before) return; // it has been too long from the start
    const { indexReaches } = await import("./log_index.js");
    await indexReaches(this.theater, before.length, () => log.peek() === before);
    if (log.peek() !== before) return; // replaced by another run or file
    this.#layers = null;
    batch(() => {
      large.value = { theater: this.theater, header: before.header };
      log.value = null;
      numRecords.value = Math.max(before.length, store.status.peek()?.num_records ?? 0);
      store.toast(t("connection.large", { n: grouped(before.length) }));
    });
  }

  /**
   * Append the new part of a batch.
   * @param {Records} message
   * @returns {boolean} false if the log contradicts itself and must be reloaded
   */
  onRecords(message) {
    const log = store.own.log.value;
    if (!log || this.#broken || message.theater !== this.theater || message.epoch !== this.epoch) return true;
    try {
      append(log, message);
    } catch (error) {
      console.error(error);
      const { message: reason } = /** @type {Error} */ (error);
      store.toast(t(this.isRecording ? "error.recording" : "error.log", { reason }), "error");
      if (!this.isRecording) return false;
      this.#broken = true; // a reload would not repair a damaged file; the records before the damage are valid
    }
    store.own.numRecords.value = log.length;
    return true;
  }
}

/** Append a batch to the page's own log, if nothing else extends it. @param {Batch} batch */
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
    else if (index > log.length) throw new Error(`record ${index} received, expected ${log.length}`);
  });
}
