// A map that forgets: what was looked at longest ago goes when the values together weigh more than a limit.

/**
 * @template K
 * @template V
 */
export class ByteLru {
  /** @type {Map<K, {value: V, bytes: number}>} the least recently used first */
  #entries = new Map();
  #total = 0;

  /** `limit` in bytes; the newest value stays whatever it weighs. */
  constructor(limit = Infinity) {
    this.limit = limit;
  }

  /** Bytes of all values together. */
  get bytes() {
    return this.#total;
  }

  /** @param {K} key */
  has(key) {
    return this.#entries.has(key);
  }

  /**
   * The value of `key`, which counts as used now; undefined when there is none.
   * @param {K} key
   */
  get(key) {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** @param {K} key @param {V} value @param {number} bytes */
  set(key, value, bytes) {
    this.#drop(key);
    this.#entries.set(key, { value, bytes });
    this.#total += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#total <= this.limit || oldest === key) break;
      this.#drop(oldest);
    }
  }

  /** @param {K} key */
  #drop(key) {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#total -= entry.bytes;
  }
}
