// Columns of the request table of a long run: their contents, their widths, and which of them fit.

import { grouped, secondsText } from "../../i18n/words.js";
import { fitting, widthOf } from "../../kit/request_table.js";

/** @import {SequenceRow} from "../../core/log_index.js" */

/**
 * @typedef {"request" | "client" | "status" | "submitted_in" | "prompt" | "hit" | "output" | "missed" | "waited" |
 *   "ttft" | "tpot" | "preempted"} Name
 * @typedef {{name: Name, width: number, text?: (row: SequenceRow) => string}} Column `width`: px; without `text`:
 *   rendered specially
 */

/** Format a count; zero is shown as a dot. @param {number | null} value */
const countText = (value) => (value ? grouped(value) : "·");
/** @param {number | null} value */
const seconds = (value) => (value === null ? "·" : secondsText(value));

/** @type {Column[]} */
const COLUMNS = [
  { name: "request", width: 96 },
  { name: "client", width: 80, text: (row) => row.client ?? "·" },
  { name: "status", width: 76 },
  { name: "submitted_in", width: 64, text: (row) => grouped(row.submitted_in) },
  { name: "prompt", width: 56, text: (row) => grouped(row.prompt) },
  { name: "hit", width: 56, text: (row) => countText(row.hit) },
  { name: "output", width: 56, text: (row) => grouped(row.output) },
  { name: "missed", width: 62, text: (row) => seconds(row.missed) },
  { name: "waited", width: 58, text: (row) => (row.waited === null ? "·" : grouped(row.waited)) },
  { name: "ttft", width: 60, text: (row) => seconds(row.ttft) },
  { name: "tpot", width: 60, text: (row) => seconds(row.tpot) },
  { name: "preempted", width: 74, text: (row) => countText(row.preempted) },
];
export const NAMES = COLUMNS.map(({ name }) => name);
/** Columns whose values are text. @type {ReadonlySet<string>} */
export const TEXT_COLUMNS = new Set(["request", "client", "status"]);
/**
 * Columns in the order in which they are dropped if they do not fit. The details of the chosen request have all of
 * them.
 */
const DROP_ORDER = /** @type {Name[]} */ (
  "missed prompt waited submitted_in output tpot hit client ttft preempted status".split(" ")
);
const MIN_BAR = 112; // px

/**
 * Return the columns that fit into `width` px beside the bars, and the width of the bars. The column of clients is
 * dropped if there are none; the column `only`, which is used as a filter, is not dropped.
 * @param {number} width @param {readonly SequenceRow[]} rows @param {string | null} only
 */
export function layoutFor(width, rows, only) {
  const hasClients = rows.some(({ client }) => client !== null);
  const shown = COLUMNS.filter(({ name }) => name !== "client" || hasClients);
  const columns = fitting(
    shown,
    width - MIN_BAR,
    DROP_ORDER.filter((name) => name !== only),
  );
  return { columns, bar: Math.max(MIN_BAR, width - widthOf(columns)) };
}
