// The keys that a query is known to look at, by what the text says of them: the token before, the first one, what
// followed this token the last time. Pure; training/heads.py names those of a poem.

/**
 * What a head may look at, the plainest first: `parallel_clause` is the same place in the clause before, `induction`
 * what followed this token the last time.
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
const BLANK = /^[^\S\n]*$/u; // and spaces alone do not
const strict = new TextDecoder("utf-8", { fatal: true });

/**
 * Whether a token ends a clause: a mark, or the end of a line.
 * @param {Uint8Array} bytes
 */
export function endsClause(bytes) {
  try {
    const text = strict.decode(bytes);
    return MARKS.test(text) && !BLANK.test(text);
  } catch {
    return false; // a piece of a character
  }
}

/** A sequence's text as far as it is known, and for each of its positions the key that each pattern names. */
export class NamedKeys {
  /** @type {number[][]} by position, in the order of PATTERNS; -1: it names none */
  #keys = [];
  #start = 0; // of the clause at the end
  #before = -1; // where the clause before it began; -1: there is none
  /** @type {Map<number, number>} token id -> where it stood last */
  #last = new Map();

  /**
   * The keys that a query at `position` may be asked about, in the order of PATTERNS; -1 where a pattern names none. A
   * key that two patterns name says nothing about either, and counts for neither.
   * @param {{token_ids: number[], token_bytes: Uint8Array[]}} text of which only more ever follows
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
