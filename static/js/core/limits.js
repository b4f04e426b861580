// Limits on traces, as in engine/trace/limits.py and docs/reference/trace-format.md.

export const MAX_SECONDS = 9e9; // 285 years: their nanoseconds fit below 2^63
export const MAX_LAYERS = 1 << 12;
export const MAX_HEADS = 1 << 12;
export const MAX_DIMENSIONS = 1 << 16; // of a head's vectors
export const MAX_GROUPS = 16; // of layers that share their blocks
export const MAX_BLOCKS = 1 << 18; // of one pool, of the CPU store, or outside a monitored server's pools
export const MAX_ALL_BLOCKS = 3 << 18; // of all pools together: a state with all of them fits into a keyframe
export const MAX_BLOCK_SIZE = 1 << 24; // tokens

const FREE_UNITS = 1 << 22; // units available to any log
const UNITS_PER_BYTE = 16; // additional units per byte of its records
/** Cost of a slot that is filled or copied; a copied token or table entry costs 1. */
export const UNITS_PER_SLOT = 8;

/**
 * Budget of copies in one pass over a log: tokens and tables of forks, content of blocks. Unlimited without `bounded`.
 */
export class Budget {
  #left;

  constructor(bounded = true) {
    this.#left = bounded ? FREE_UNITS : Infinity;
  }

  /** Add the units of the next record. @param {number} numBytes */
  credit(numBytes) {
    this.#left += numBytes * UNITS_PER_BYTE;
  }

  /** Spend `units`. Throws if the records so far do not cover them. @param {number} units */
  spend(units) {
    this.#left -= units;
    if (this.#left < 0)
      throw new Error(
        `the log would copy ${-this.#left} more than ${FREE_UNITS} tokens and table entries and ` +
          `${UNITS_PER_BYTE} for each byte of its records`,
      );
  }
}
