// What the time charts have in common.

/** @typedef {"prefill" | "decode" | "mixed"} StepPhase */

/** @type {StepPhase[]} */
export const PHASES = ["prefill", "decode", "mixed"];
export const MS = 1000;

/**
 * The row of record `index` among rows that ascend by record; undefined when it has none.
 *
 * @template {{record: number}} R
 * @param {R[]} rows
 * @param {number} index
 */
export const rowAt = (rows, index) => rows.find((row) => row.record === index);
