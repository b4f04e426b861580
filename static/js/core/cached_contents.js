// What the prefix cache of a run ever had: contents by their hash, as the `cache` operations name them, and where they
// were evicted. A fold over records that goes on where it stopped. Pure.

/** @type {WeakMap<Uint8Array, string>} the same bytes stay the same object from state to state */
const written = new WeakMap();

/** A hash as text, to be a key. @param {Uint8Array} hash */
export function hashKey(hash) {
  let found = written.get(hash);
  if (found === undefined) {
    found = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    written.set(hash, found);
  }
  return found;
}

/**
 * @typedef {import("./trace.js").StepRecord} StepRecord
 * @typedef {{record: number, block: number, seq: number | null}} Eviction `seq`: for which the block was taken
 * @typedef {object} Content of one block, named by everything from the beginning of its sequence on
 * @property {string} hash hexadecimal
 * @property {string | null} parent hash of the content before it, which of a watched server need not be known; null: a
 *   sequence begins with it, or `unsaid`
 * @property {boolean} unsaid a watched server did not say what comes before it
 * @property {string | null} salt of the sequence that it was computed for; the hash covers it
 * @property {number} logical how many blocks come before it; of a watched server at least so many
 * @property {number[]} tokens ids
 * @property {number} seq the sequence that it was computed for first
 * @property {number} record in which that was
 * @property {Eviction[]} evictions ascending
 */

export class Contents {
  length = 0;
  /** @type {Map<string, Content>} */
  byHash = new Map();
  /** @type {Map<string, string>} what comes before and the tokens -> the hash */
  #byTokens = new Map();
  /** @type {Map<number, string | null>} by sequence */
  #salts = new Map();
  /** @type {Set<string>} what a watched server named as coming before something */
  #followed = new Set();

  /** @param {StepRecord} record */
  append({ index, ops = [] }) {
    for (const op of ops) {
      if (op.type === "submit") this.#salts.set(op.seq_id, op.cache_salt ?? null);
      else if (op.type === "fork") this.#salts.set(op.seq_id, this.#salts.get(op.parent_seq_id) ?? null);
      else if (op.type === "cache") this.#add(op, index);
      else if (op.type === "stored") this.#see(op, index);
      else if (op.type === "removed") {
        if (!op.num_left)
          // else it is still cached
          this.byHash.get(hashKey(op.block_hash))?.evictions.push({ record: index, block: op.place, seq: null });
      } else if (op.type === "evict")
        this.byHash
          .get(hashKey(op.block_hash))
          ?.evictions.push({ record: index, block: op.block_id, seq: op.seq_id ?? null });
    }
    this.length += 1;
  }

  /** @param {import("./trace.js").Cache} op @param {number} record */
  #add({ seq_id: seq, logical, block_hash, parent_hash, token_ids: tokens }, record) {
    const hash = hashKey(block_hash);
    if (this.byHash.has(hash)) return;
    const parent = parent_hash && hashKey(parent_hash);
    const salt = this.#salts.get(seq) ?? null;
    this.byHash.set(hash, { hash, parent, unsaid: false, salt, logical, tokens, seq, record, evictions: [] });
    this.#byTokens.set(placeOf(parent, salt, tokens), hash);
  }

  /**
   * A watched server may name a content several times, and say more of it than before: of one that it moved out of the
   * pool neither tokens nor what comes before. It may name what follows before what is followed, or never that.
   * @param {import("./trace.js").Stored} op @param {number} record
   */
  #see(
    { block_hash, parent_hash, parent_unsaid: unsaid = false, token_ids: tokens, extra_keys: extra = null },
    record,
  ) {
    const hash = hashKey(block_hash);
    const known = this.byHash.get(hash);
    if (known && !(known.unsaid && !unsaid) && !(tokens.length && !known.tokens.length)) return;
    /** @type {Content} */
    const content = known ?? {
      hash,
      parent: null,
      unsaid: true,
      salt: extra,
      logical: 0,
      tokens,
      seq: -1,
      record,
      evictions: [],
    };
    this.byHash.set(hash, content);
    if (tokens.length) content.tokens = tokens;
    content.salt ??= extra;
    const parent = parent_hash && hashKey(parent_hash);
    if (content.unsaid && !unsaid && !this.#followsFrom(hash, parent)) {
      content.unsaid = false;
      content.parent = parent;
      content.logical = parent === null ? 0 : (this.byHash.get(parent)?.logical ?? 0) + 1;
      if (parent !== null) this.#followed.add(parent);
    }
    if (tokens.length && !content.unsaid) this.#byTokens.set(placeOf(content.parent, content.salt, tokens), hash);
  }

  /**
   * Whether content `hash` comes before `parent`, or is it: hashes that name each other in a circle are damaged.
   * @param {string} hash @param {string | null} parent
   */
  #followsFrom(hash, parent) {
    if (parent === hash) return true;
    if (!this.#followed.has(hash)) return false;
    for (let at = parent; at !== null; at = this.byHash.get(at)?.parent ?? null) if (at === hash) return true;
    return false;
  }

  /**
   * The content with these tokens after `parent`, or at the beginning under `salt`; undefined: there never was one.
   * @param {string | null} parent @param {string | null} salt @param {number[]} tokens
   */
  after(parent, salt, tokens) {
    return this.byHash.get(this.#byTokens.get(placeOf(parent, salt, tokens)) ?? "");
  }

  /** The salt that a sequence came with. @param {number} seq */
  saltOf(seq) {
    return this.#salts.get(seq) ?? null;
  }
}

/** Only the first block of a sequence has its salt in its hash. */
const placeOf = (
  /** @type {string | null} */ parent,
  /** @type {string | null} */ salt,
  /** @type {number[]} */ tokens,
) => (parent === null ? JSON.stringify([salt, ...tokens]) : `${parent},${tokens.join(",")}`);

/** @type {WeakMap<object, Contents>} */
const read = new WeakMap();

/** The contents of a log as far as it is here. @param {{records: StepRecord[]}} log */
export function contentsOf(log) {
  let found = read.get(log);
  if (!found) read.set(log, (found = new Contents()));
  while (found.length < log.records.length) found.append(log.records[found.length]);
  return found;
}
