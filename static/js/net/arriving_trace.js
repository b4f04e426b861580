// A `.kvtrace` file that is read while it arrives: its first records are there long before its last ones.

import { TraceFormatError } from "../core/codec.js";
import { parseTrace } from "../core/file.js";
import { NoAnswer } from "./client.js";

/** @typedef {ReturnType<typeof parseTrace>} Trace */

const GROWTH = 1.5; // by which a file is longer when it is parsed again: all parsing together stays in proportion

export class ArrivingTrace {
  #bytes = new Uint8Array(1 << 16);
  #size = 0;
  #isOver = false;
  #failure = ""; // why it ended before its end
  /** @type {(() => void)[]} who waits for more of it */
  #waiting = [];
  /** @type {{trace: Trace, size: number} | null} as far as it was parsed last */
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

  /** Whether it did not come: it may be asked for again. */
  get hasFailed() {
    return this.#failure !== "";
  }

  /**
   * The trace with its first `count` records and their arrays at least, or with all that it has. Throws NoAnswer when
   * they do not come, and TraceFormatError when it is none.
   *
   * @param {number} count
   * @returns {Promise<Trace>}
   */
  async upTo(count) {
    for (;;) {
      const trace = this.#soFar();
      if (trace && trace.records.length > count) return trace; // the next one has begun: the arrays are here
      if (this.#isOver) break;
      await new Promise((done) => this.#waiting.push(() => done(null)));
    }
    if (this.hasFailed) throw new NoAnswer(this.#failure);
    return parseTrace(this.#bytes.subarray(0, this.#size));
  }

  /** What was parsed of it; null before its header is here. */
  #soFar() {
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
      this.#put(part.value);
      this.#wake();
    }
  }

  /** @param {Uint8Array} part */
  #put(part) {
    const size = this.#size + part.byteLength;
    if (size > this.#bytes.byteLength) {
      const longer = new Uint8Array(2 * size); // records that were parsed are views of the old one
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
