// One of several runs: its theater, and its log as far as it has come.

import { asBytes } from "../core/codec.js";
import { unfinished } from "../core/instances.js";
import { TraceLog } from "../core/log.js";

export class Lane {
  /**
   * @param {string} name
   * @param {string} theater
   * @param {{epoch: number, header: Uint8Array | ArrayBuffer}} begun
   */
  constructor(name, theater, { epoch, header }) {
    this.name = name;
    this.theater = theater;
    this.epoch = epoch;
    this.log = new TraceLog(asBytes(header));
    /** @type {{length: number, done: () => void, failed: (error: Error) => void}[]} for so many records of the log */
    this.waiting = [];
  }

  /** Whether there is something left to compute. */
  get unfinished() {
    return unfinished(this.log.tail) > 0;
  }

  /**
   * An empty log of another run of the theater. What waits for records of the log before does so no longer.
   * @param {{epoch: number, header: Uint8Array | ArrayBuffer}} begun
   */
  begin({ epoch, header }) {
    for (const { done } of this.waiting.splice(0)) done();
    this.epoch = epoch;
    this.log = new TraceLog(asBytes(header));
  }

  /**
   * Take records of this run; others are left. Throws when they do not follow from the log.
   * @param {import("../core/wire.js").Records} message
   */
  receive({ epoch, first, records, captures }) {
    if (epoch !== this.epoch) return;
    records.forEach((bytes, i) => {
      const captured = captures?.[i];
      if (first + i === this.log.length) this.log.append(asBytes(bytes), captured ? asBytes(captured) : null);
    });
    const here = this.waiting.filter(({ length }) => this.log.length >= length);
    this.waiting = this.waiting.filter((one) => !here.includes(one));
    for (const { done } of here) done();
  }

  /**
   * Resolves when the log has `length` records.
   * @param {number} length
   * @returns {Promise<void> | undefined}
   */
  arrival(length) {
    if (this.log.length >= length) return undefined;
    return new Promise((done, failed) => this.waiting.push({ length, done, failed }));
  }

  /**
   * No more records come.
   * @param {Error} error
   */
  lose(error) {
    for (const { failed } of this.waiting.splice(0)) failed(error);
  }
}
