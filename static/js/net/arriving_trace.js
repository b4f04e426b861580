// A `.kvtrace` file that is parsed while it downloads, so that its first records are available early.

import { TraceFormatError } from "../core/codec.js";
import { parseTrace } from "../core/file.js";
import { NoAnswer } from "./client.js";

/** @typedef {ReturnType<typeof parseTrace>} Trace */

const GROWTH = 1.5; // minimum growth between parses, which keeps the total parsing time linear in the file's size

export class ArrivingTrace {
  #bytes = new Uint8Array(1 << 16);
  #size = 0;
  #isOver = false;
  #failure = ""; // reason for an incomplete download
  /** @type {(() => void)[]} callbacks of callers that wait for more data */
  #waiting = [];
  /** @type {{trace: Trace, size: number} | null} result of the last parse */
  #parsed = null;

  /** @param {URL} address */
  constructor(address) {
    this.#read(address)
      .catch((error) => (this.#failure = `${address.pathname}: ${error.message}`))
      .finally(() => {
        this.#isOver = true;
        this.#wake();
      });
  }

  /** Whether the download failed; it may then be retried. */
  get hasFailed() {
    return this.#failure !== "";
  }

  /**
   * Return the trace with at least its first `count` records and their arrays, or with all records if it has fewer.
   * Throws NoAnswer if the download fails and TraceFormatError if the file is not a trace.
   * @param {number} count
   * @returns {Promise<Trace>}
   */
  async upTo(count) {
    for (;;) {
      const trace = this.#parseArrived();
      if (trace && trace.records.length > count) return trace; // the arrays of all records but the last are complete
      if (this.#isOver) break;
      await new Promise((done) => this.#waiting.push(() => done(null)));
    }
    if (this.hasFailed) throw new NoAnswer(this.#failure);
    return parseTrace(this.#bytes.subarray(0, this.#size));
  }

  /** Parse the bytes that have arrived; null before the header is complete. */
  #parseArrived() {
    if (this.#size > GROWTH * (this.#parsed?.size ?? 0))
      try {
        this.#parsed = { trace: parseTrace(this.#bytes.subarray(0, this.#size)), size: this.#size };
      } catch (error) {
        if (!(error instanceof TraceFormatError)) throw error;
      }
    return this.#parsed?.trace ?? null;
  }

  /** @param {URL} address */
  async #read(address) {
    const answer = await fetch(address);
    if (!answer.ok || !answer.body) throw new Error(`HTTP ${answer.status}`);
    const reader = answer.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      this.#append(part.value);
      this.#wake();
    }
  }

  /** @param {Uint8Array} part */
  #append(part) {
    const size = this.#size + part.byteLength;
    if (size > this.#bytes.byteLength) {
      const longer = new Uint8Array(2 * size); // parsed records are views into the old buffer
      longer.set(this.#bytes.subarray(0, this.#size));
      this.#bytes = longer;
    }
    this.#bytes.set(part, this.#size);
    this.#size = size;
  }

  #wake() {
    for (const done of this.#waiting.splice(0)) done();
  }
}
