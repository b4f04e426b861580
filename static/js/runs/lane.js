// Lane: one of several runs, with its session and its log.

import { asBytes } from "../core/codec.js";
import { unfinished } from "../core/instances.js";
import { TraceLog } from "../core/log.js";
import { Refusal } from "../net/client.js";
import { fetchLog } from "../net/trace_file.js";
import { siteRecording } from "../state/without_server.js";

export class Lane {
  /** @param {string} name @param {string} theater @param {{epoch: number, header: Uint8Array | ArrayBuffer}} begun */
  constructor(name, theater, { epoch, header }) {
    this.name = name;
    this.theater = theater;
    this.epoch = epoch;
    this.log = new TraceLog(asBytes(header));
    /** @type {{length: number, done: () => void, failed: (error: Error) => void}[]} callers waiting for a log length */
    this.waiting = [];
  }

  /** Whether there are unfinished sequences. */
  get unfinished() {
    return unfinished(this.log.tail) > 0;
  }

  /**
   * Start an empty log for the session's next run. Callers that wait for records of the previous one are resumed.
   * @param {{epoch: number, header: Uint8Array | ArrayBuffer}} begun
   */
  begin({ epoch, header }) {
    for (const { done } of this.waiting.splice(0)) done();
    this.epoch = epoch;
    this.log = new TraceLog(asBytes(header));
  }

  /**
   * Append records of this run and ignore others. Throws if they do not follow from the log.
   * @param {import("../core/wire.js").Records} message
   */
  receive({ epoch, first, records, captures }) {
    if (epoch !== this.epoch) return;
    records.forEach((bytes, i) => {
      const captured = captures?.[i];
      if (first + i === this.log.length) this.log.append(asBytes(bytes), captured ? asBytes(captured) : null);
    });
    const reached = this.waiting.filter(({ length }) => this.log.length >= length);
    this.waiting = this.waiting.filter((one) => !reached.includes(one));
    for (const { done } of reached) done();
  }

  /** Wait until the log has `length` records. @param {number} length @returns {Promise<void> | undefined} */
  arrival(length) {
    if (this.log.length >= length) return undefined;
    return new Promise((done, failed) => this.waiting.push({ length, done, failed }));
  }

  /** End all waits because no more records will arrive. @param {Error} error */
  lose(error) {
    for (const { failed } of this.waiting.splice(0)) failed(error);
  }
}

// Recorded lanes of a site, which are loaded completely.

/**
 * Load the lanes' logs. Throws Refusal if one cannot be read.
 * @param {string[]} names
 * @param {(name: string) => string} recorded maps a lane to the id of its recording
 */
export async function recordedLanes(names, recorded) {
  const found = await Promise.all(names.map((name) => fetchLog(siteRecording(recorded(name)))));
  return found.map((one) => {
    if (!one) throw new Refusal({ code: "lost", message: "" });
    return one.log;
  });
}
