// All contents that the prefix cache of a run ever held, keyed by the hash in `cache` operations, and their evictions.
// An incremental fold over the records. Pure.

import { folding, memo } from "./folds.js";

/** @import {StepRecord} from "./trace.js" */

/** Return a hash as text, for use as a key. The same bytes keep their object identity from state to state. */
export const hashKey = memo((/** @type {Uint8Array} */ hash) =>
  Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join(""),
);

/**
 * @typedef {{record: number, block: number, seq: number | null}} Eviction `seq`: the sequence that got the block
 * @typedef {object} Content of one block, identified by all tokens from the start of its sequence
 * @property {string} hash hexadecimal
 * @property {string | null} parent hash of the preceding content; null if a sequence begins with it, or `parentUnknown`
 * @property {boolean} parentUnknown the monitored server did not report its predecessor
 * @property {string | null} salt of the sequence it was computed for; part of the hash
 * @property {number} logical number of preceding blocks; a lower bound for a monitored server
 * @property {number[]} tokens ids
 * @property {number} seq first sequence that computed it
 * @property {number} record of that computation
 * @property {Eviction[]} evictions ascending
 */

export class Contents {
  length = 0;
  /** @type {Map<string, Content>} */
  byHash = new Map();
  /** @type {Map<string, string>} predecessor and tokens -> hash */
  #byTokens = new Map();
  /** @type {Map<number, string | null>} by sequence */
  #salts = new Map();
  /** @type {Set<string>} hashes that a monitored server named as a predecessor */
  #followed = new Set();

  /** @param {StepRecord} record */
  append({ index, ops = [] }) {
    for (const op of ops) {
      if (op.type === "submit") this.#salts.set(op.seq_id, op.cache_salt ?? null);
      else if (op.type === "fork") this.#salts.set(op.seq_id, this.#salts.get(op.parent_seq_id) ?? null);
      else if (op.type === "cache") this.#add(op, index);
      else if (op.type === "stored") this.#merge(op, index);
      else if (op.type === "removed") {
        if (!op.num_left)
          // otherwise it is still cached
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
    this.byHash.set(hash, { hash, parent, parentUnknown: false, salt, logical, tokens, seq, record, evictions: [] });
    this.#byTokens.set(tokensKey(parent, salt, tokens), hash);
  }

  /**
   * Merge a report of a monitored server, which may report a content several times with varying detail: without tokens
   * and predecessor after it left the pool. Successors may be reported before their predecessors, or without them.
   * @param {import("./trace.js").Stored} op
   * @param {number} record
   */
  #merge(
    { block_hash, parent_hash, parent_unsaid: parentUnknown = false, token_ids: tokens, extra_keys: extra = null },
    record,
  ) {
    const hash = hashKey(block_hash);
    const known = this.byHash.get(hash);
    if (known && !(known.parentUnknown && !parentUnknown) && !(tokens.length && !known.tokens.length)) return;
    /** @type {Content} */
    const content = known ?? {
      hash,
      parent: null,
      parentUnknown: true,
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
    if (content.parentUnknown && !parentUnknown && !this.#followsFrom(hash, parent)) {
      content.parentUnknown = false;
      content.parent = parent;
      content.logical = parent === null ? 0 : (this.byHash.get(parent)?.logical ?? 0) + 1;
      if (parent !== null) this.#followed.add(parent);
    }
    if (tokens.length && !content.parentUnknown)
      this.#byTokens.set(tokensKey(content.parent, content.salt, tokens), hash);
  }

  /**
   * Return whether content `hash` precedes or equals `parent`; such a cycle occurs only in a damaged log.
   * @param {string} hash
   * @param {string | null} parent
   */
  #followsFrom(hash, parent) {
    if (parent === hash) return true;
    if (!this.#followed.has(hash)) return false;
    for (let at = parent; at !== null; at = this.byHash.get(at)?.parent ?? null) if (at === hash) return true;
    return false;
  }

  /**
   * Return the content with these tokens after `parent`, or at the start under `salt`; undefined if it was never
   * cached.
   * @param {string | null} parent
   * @param {string | null} salt
   * @param {number[]} tokens
   */
  after(parent, salt, tokens) {
    return this.byHash.get(this.#byTokens.get(tokensKey(parent, salt, tokens)) ?? "");
  }

  /** Return the salt of a sequence's request. @param {number} seq */
  saltOf(seq) {
    return this.#salts.get(seq) ?? null;
  }
}

/** Key of `#byTokens`; the salt enters only the hash of a sequence's first block. */
const tokensKey = (
  /** @type {string | null} */ parent,
  /** @type {string | null} */ salt,
  /** @type {number[]} */ tokens,
) => (parent === null ? JSON.stringify([salt, ...tokens]) : `${parent},${tokens.join(",")}`);

/** Return the contents of a log up to its end. */
export const contentsOf = folding(
  () => new Contents(),
  (contents, record) => contents.append(record),
);
