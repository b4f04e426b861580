// Fetching of arrays that were not sent with their records: one layer of many records at a time, or all layers of one
// record.

import { decode } from "../core/codec.js";

/** @import {TraceLog} from "../core/log.js" */

const MAX_RECORDS = 64; // per request
const RETRY_MS = 1000; // until a failed request may be repeated

/**
 * Fetcher for one log. `address(layer, records)` returns the URL, for all layers of one record if `layer` is null;
 * `onFetch(±1)` and `arrived()` are called on requests and responses.
 */
export class LayerFetcher {
  /** @type {Set<string>} `${index}/${layer}` of pending requests */
  #requested = new Set();
  /** @type {Map<number | null, number[]>} layer (null: all) -> record indices for the next round */
  #waiting = new Map();
  /** @type {Promise<void> | null} next round, while requests for it are collected */
  #round = null;

  /**
   * @param {TraceLog} log
   * @param {{
   *   address: (layer: number | null, records: number[]) => string,
   *   onFetch: (by: number) => void,
   *   arrived: () => void,
   *   fetch?: (url: string) => Promise<Pick<Response, "ok" | "status" | "arrayBuffer">>,
   * }} options
   */
  constructor(log, { address, onFetch, arrived, fetch = (url) => globalThis.fetch(url) }) {
    this.log = log;
    this.address = address;
    this.onFetch = onFetch;
    this.arrived = arrived;
    this.fetch = fetch;
    log.fetchable = true;
  }

  /**
   * Fetch one layer of record `index`, or all of them (null), unless it is loaded or pending. The promise resolves with
   * its round.
   * @param {number} index
   * @param {number | null} layer
   * @returns {Promise<void>}
   */
  request(index, layer) {
    const key = `${index}/${layer}`;
    const isMissing = this.#layers(layer).some((one) => this.log.captureMissing(index, one));
    if (!isMissing || this.#requested.has(key) || this.#requested.has(`${index}/null`))
      return this.#round ?? Promise.resolve();
    this.#requested.add(key);
    this.#waiting.set(layer, [...(this.#waiting.get(layer) ?? []), index]);
    this.#round ??= new Promise((done) => void setTimeout(done)).then(() => this.#fetchRound());
    return this.#round;
  }

  /** @param {number | null} layer */
  #layers(layer) {
    return layer === null ? Array.from({ length: this.log.header.model.num_layers }, (_, i) => i) : [layer];
  }

  async #fetchRound() {
    const batches = [...this.#waiting];
    this.#waiting.clear();
    this.#round = null;
    for (const [layer, indices] of batches) {
      const max = layer === null ? 1 : MAX_RECORDS;
      for (let at = 0; at < indices.length; at += max) await this.#ask(layer, indices.slice(at, at + max));
    }
  }

  /** @param {number | null} layer @param {number[]} indices */
  async #ask(layer, indices) {
    this.onFetch(1);
    const forgetRequests = () => indices.forEach((index) => this.#requested.delete(`${index}/${layer}`));
    try {
      const answer = await this.fetch(this.address(layer, indices));
      if (layer === null && answer.status === 404) this.#markMissing(indices[0]);
      else if (!answer.ok) throw new Error(String(answer.status));
      else if (layer === null) this.log.addCapture(indices[0], new Uint8Array(await answer.arrayBuffer()));
      else this.#store(layer, new Uint8Array(await answer.arrayBuffer()));
      forgetRequests(); // may be requested again after an eviction from the log or a partial response
      this.arrived();
    } catch {
      setTimeout(() => (forgetRequests(), this.arrived()), RETRY_MS); // panels request them again
    } finally {
      this.onFetch(-1);
    }
  }

  /** @param {number} layer @param {Uint8Array} answer */
  #store(layer, answer) {
    const found = decode(answer);
    const { records, arrays } = /** @type {{records: number[], arrays: (Uint8Array | null)[]}} */ (found);
    records.forEach((index, i) => {
      const bytes = arrays[i];
      if (bytes) this.log.addLayer(index, layer, bytes);
      else this.log.captureGone.add(`${index}/${layer}`);
    });
  }

  /** @param {number} index record without arrays */
  #markMissing(index) {
    for (const layer of this.#layers(null)) this.log.captureGone.add(`${index}/${layer}`);
  }
}
