// Classes of requests in two runs: what is shown of each, what differs, and in which order they stand. Pure.

/**
 * @typedef {{
 *   requests: number, sequences: number, finished: number, aborted: number, prompt_tokens: number,
 *   output_tokens: number, cached_share: number | null, preemptions: number, ttft_p50: number | null,
 *   ttft_p99: number | null, tpot_p50: number | null, tpot_p99: number | null,
 * }} Figures see engine/trace/log_index/classes.py
 * @typedef {{name: string | null, a: Figures | null, b: Figures | null}} Class `name` null: the log does not say
 * @typedef {{theater: string, num_records: number, num_surveyed: number, is_simulated: boolean, unsaid: string}} Side
 * @typedef {{by: string, runs: Side[], classes: Class[], num_more: number}} Answer
 * @typedef {typeof COLUMNS[number]} Column
 */

/** What is shown of a class, in this order. */
export const COLUMNS = /** @type {const} */ ([
  "requests",
  "ttft_p50",
  "ttft_p99",
  "tpot_p50",
  "tpot_p99",
  "cached_share",
  "preemptions",
  "aborted",
]);

/** What the requests can be told apart by. */
export const BYS = /** @type {const} */ (["all", "client", "priority", "prompt", "output", "prefix"]);

/** What a figure is: a share, a time, a count. @param {Column} column */
export const kindOf = (column) =>
  column === "cached_share" ? "share" : column.startsWith("t") ? "time" : /** @type {const} */ ("count");

/**
 * What `b` has over `a`: of times their ratio less one, of shares and counts the difference. Null: one is not there.
 *
 * @param {Class} one
 * @param {Column} column
 */
export function differenceOf({ a, b }, column) {
  const [from, to] = [a?.[column] ?? null, b?.[column] ?? null];
  if (from === null || to === null) return null;
  if (kindOf(column) !== "time") return to - from;
  return from > 0 ? to / from - 1 : null;
}

/**
 * The classes by a column: of two runs by what differs, of one by its figure; those without it come last. Null: as the
 * server has them.
 *
 * @param {Class[]} classes
 * @param {Column | null} column
 * @param {boolean} down
 * @param {boolean} two
 */
export function sorted(classes, column, down, two) {
  if (!column) return classes;
  const keyOf = (/** @type {Class} */ one) => (two ? differenceOf(one, column) : (one.a?.[column] ?? null));
  return [...classes].sort((x, y) => {
    const [a, b] = [keyOf(x), keyOf(y)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return down ? b - a : a - b;
  });
}
