// LRU map limited by the total size of its values.

/** @template K @template V */
export class ByteLru {
  /** @type {Map<K, {value: V, bytes: number}>} the least recently used first */
  #entries = new Map();
  #total = 0;

  /** `limit`: in bytes; the newest value stays regardless of its size. */
  constructor(limit = Infinity) {
    this.limit = limit;
  }

  /** Total bytes of all values. */
  get bytes() {
    return this.#total;
  }

  /** @param {K} key */
  has(key) {
    return this.#entries.has(key);
  }

  /** Return the value of `key` and mark it as used; undefined if there is none. @param {K} key */
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
