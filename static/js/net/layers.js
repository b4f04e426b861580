// Arrays that did not travel with their records, fetched a layer of many records at a time.

import { decode } from "../core/codec.js";

/** @typedef {import("../core/log.js").TraceLog} TraceLog */

const MOST = 64; // records of one request
const PAUSE = 1000; // ms before what could not be fetched is asked for again

/** Fetches for one log. `address(layer, records)` is where to ask; `asking(±1)` and `arrived()` hear of requests. */
export class LayerFetcher {
  /** @type {Set<string>} `${index}/${layer}` that are waited for */
  #asked = new Set();
  /** @type {Map<number, number[]>} layer -> indices, for the next round */
  #waiting = new Map();
  /** @type {Promise<void> | null} the round that gathers what is wanted now */
  #round = null;

  /**
   * @param {TraceLog} log
   * @param {{
   *   address: (layer: number, records: number[]) => string,
   *   asking: (by: number) => void,
   *   arrived: () => void,
   *   fetch?: (url: string) => Promise<Pick<Response, "ok" | "status" | "arrayBuffer">>,
   * }} options
   */
  constructor(log, { address, asking, arrived, fetch = (url) => globalThis.fetch(url) }) {
    this.log = log;
    this.address = address;
    this.asking = asking;
    this.arrived = arrived;
    this.fetch = fetch;
    log.fetchable = true;
  }

  /**
   * Ask for one layer of record `index`, unless it is here or asked for. The promise ends with the round that it
   * belongs to.
   *
   * @param {number} index
   * @param {number} layer
   * @returns {Promise<void>}
   */
  want(index, layer) {
    const key = `${index}/${layer}`;
    if (!this.log.captureMissing(index, layer) || this.#asked.has(key)) return this.#round ?? Promise.resolve();
    this.#asked.add(key);
    this.#waiting.set(layer, [...(this.#waiting.get(layer) ?? []), index]);
    this.#round ??= new Promise((done) => void setTimeout(done)).then(() => this.#go());
    return this.#round;
  }

  async #go() {
    const wanted = [...this.#waiting];
    this.#waiting.clear();
    this.#round = null;
    for (const [layer, indices] of wanted)
      for (let at = 0; at < indices.length; at += MOST) await this.#ask(layer, indices.slice(at, at + MOST));
  }

  /**
   * @param {number} layer
   * @param {number[]} indices
   */
  async #ask(layer, indices) {
    this.asking(1);
    const forget = () => indices.forEach((index) => this.#asked.delete(`${index}/${layer}`));
    try {
      const answer = await this.fetch(this.address(layer, indices));
      if (!answer.ok) throw new Error(String(answer.status));
      const found = decode(new Uint8Array(await answer.arrayBuffer()));
      const { records, arrays } = /** @type {{records: number[], arrays: (Uint8Array | null)[]}} */ (found);
      records.forEach((index, i) => {
        const bytes = arrays[i];
        if (bytes) this.log.addLayer(index, layer, bytes);
        else this.log.captureGone.add(`${index}/${layer}`);
      });
      forget(); // a log that lets them go, or an answer that took fewer, asks again
      this.arrived();
    } catch {
      setTimeout(() => (forget(), this.arrived()), PAUSE); // a panel that still shows them asks again
    } finally {
      this.asking(-1);
    }
  }
}
