// Keys that heads typically attend to, by patterns of the text: the previous token, the first one, the token after the
// last occurrence of the current one. Pure; training/heads.py names the patterns of poems.

/**
 * Attention patterns, the simplest first. `parallel_clause`: same offset in the previous clause; `induction`:
 * token after the last occurrence of the current one.
 */
export const PATTERNS = /** @type {const} */ ([
  "previous_token",
  "first_token",
  "itself",
  "induction",
  "parallel_clause",
  "clause_start",
  "last_punctuation",
]);

/** @typedef {typeof PATTERNS[number]} Pattern */

const MARKS = /^[\s，。！？；：、,.;:!?…]+$/u; // ends a clause
const BLANK = /^[^\S\n]*$/u; // does not end a clause
const strict = new TextDecoder("utf-8", { fatal: true });

/** Return whether a token ends a clause: punctuation or the end of a line. @param {Uint8Array} bytes */
export function endsClause(bytes) {
  try {
    const text = strict.decode(bytes);
    return MARKS.test(text) && !BLANK.test(text);
  } catch {
    return false; // fragment of a character
  }
}

/** Text of a sequence, with the key that each pattern names for each position. */
export class NamedKeys {
  /** @type {number[][]} by position, in the order of PATTERNS; -1: none */
  #keys = [];
  #start = 0; // of the last clause
  #before = -1; // start of the previous clause; -1: none
  /** @type {Map<number, number>} token id -> last position */
  #last = new Map();

  /**
   * Return the keys for a query at `position`, in the order of PATTERNS; -1 where a pattern names none. A key named by
   * two patterns is ambiguous and counts for neither.
   * @param {{token_ids: number[], token_bytes: Uint8Array[]}} text tokens may only be appended between calls
   * @param {number} position
   */
  at(text, position) {
    for (let next = this.#keys.length; next <= position && next < text.token_ids.length; next++)
      this.#keys.push(this.#read(text.token_ids[next], text.token_bytes[next], next));
    return this.#keys[position] ?? null;
  }

  /** @param {number} token @param {Uint8Array} bytes @param {number} at */
  #read(token, bytes, at) {
    const inClauses = this.#start > 0;
    const parallel = this.#before < 0 ? -1 : this.#before + at - this.#start;
    const before = this.#last.get(token);
    const named = [
      at - 1,
      0,
      at,
      before === undefined ? -1 : before + 1,
      parallel < this.#start ? parallel : -1,
      inClauses ? this.#start : -1,
      inClauses ? this.#start - 1 : -1,
    ];
    this.#last.set(token, at);
    if (endsClause(bytes)) [this.#before, this.#start] = [this.#start, at + 1];
    return named.map((key, i) => (named.some((other, j) => j !== i && other === key) ? -1 : key));
  }
}
