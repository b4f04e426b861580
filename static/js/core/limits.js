// What a trace may ask of a reader: the limits of engine/trace/limits.py, which docs/reference/trace-format.md names.

export const MAX_SECONDS = 9e9; // 285 years, which count in nanoseconds up to 2^63
export const MAX_LAYERS = 1 << 12;
export const MAX_HEADS = 1 << 12;
export const MAX_DIMENSIONS = 1 << 16; // of a head's vectors
export const MAX_GROUPS = 16; // of layers that share their blocks
export const MAX_BLOCKS = 1 << 18; // of one pool, and of the CPU store; places outside the pools of a watched server
export const MAX_ALL_BLOCKS = 3 << 18; // of all pools together: a state with all of them known fits into a keyframe
export const MAX_BLOCK_SIZE = 1 << 24; // tokens

const FREE_UNITS = 1 << 22; // things that any log may have copied
const UNITS_PER_BYTE = 16; // and so many for each byte of its records
/** A slot that is filled or copied; a token or a table entry that is copied counts 1. */
export const UNITS_PER_SLOT = 8;

/** What one pass over a log may copy: forks' tokens and tables, content of blocks. Without `bounded`: anything. */
export class Budget {
  #left;

  constructor(bounded = true) {
    this.#left = bounded ? FREE_UNITS : Infinity;
  }

  /**
   * A record of so many bytes comes next.
   * @param {number} numBytes
   */
  read(numBytes) {
    this.#left += numBytes * UNITS_PER_BYTE;
  }

  /**
   * Throws when the records so far do not pay for it.
   * @param {number} units
   */
  spend(units) {
    this.#left -= units;
    if (this.#left < 0)
      throw new Error(
        `the log would copy ${-this.#left} more than ${FREE_UNITS} tokens and table entries and ` +
          `${UNITS_PER_BYTE} for each byte of its records`,
      );
  }
}
