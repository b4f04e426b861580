// The columns of the table of a long run's requests: what stands in them, how wide they are, which of them fit.

import { fitting, widthOf } from "../../kit/table.js";
import { grouped, secondsText } from "../../tell/words.js";

/**
 * @typedef {import("../../core/survey.js").SequenceRow} SequenceRow
 * @typedef {"request" | "client" | "status" | "submitted_in" | "prompt" | "hit" | "output" | "missed" | "waited" |
 *   "ttft" | "tpot" | "preempted"} Name
 * @typedef {{name: Name, width: number, text?: (row: SequenceRow) => string}} Column `width`: px; without a `text`:
 *   one of its own
 */

/** What did not happen is no number to read. @param {number | null} value */
const some = (value) => (value ? grouped(value) : "·");
/** @param {number | null} value */
const seconds = (value) => (value === null ? "·" : secondsText(value));

/** @type {Column[]} */
const COLUMNS = [
  { name: "request", width: 96 },
  { name: "client", width: 80, text: (row) => row.client ?? "·" },
  { name: "status", width: 76 },
  { name: "submitted_in", width: 64, text: (row) => grouped(row.submitted_in) },
  { name: "prompt", width: 56, text: (row) => grouped(row.prompt) },
  { name: "hit", width: 56, text: (row) => some(row.hit) },
  { name: "output", width: 56, text: (row) => grouped(row.output) },
  { name: "missed", width: 62, text: (row) => seconds(row.missed) },
  { name: "waited", width: 58, text: (row) => (row.waited === null ? "·" : grouped(row.waited)) },
  { name: "ttft", width: 60, text: (row) => seconds(row.ttft) },
  { name: "tpot", width: 60, text: (row) => seconds(row.tpot) },
  { name: "preempted", width: 74, text: (row) => some(row.preempted) },
];
export const NAMES = COLUMNS.map(({ name }) => name);
/** Words. @type {ReadonlySet<string>} */
export const LETTERED = new Set(["request", "client", "status"]);
/** What goes first where there is no room for all: the line of the request that is chosen has it, too. */
const LESS = /** @type {Name[]} */ (
  "missed prompt waited submitted_in output tpot hit client ttft preempted status".split(" ")
);
const BAR = 112; // px, at least

/**
 * The columns that fit into `width` px beside the bars, and how wide those are. What none of the rows says has no
 * column; what rows are chosen by is not left out.
 *
 * @param {number} width
 * @param {readonly SequenceRow[]} rows
 * @param {string | null} only
 * @returns {{columns: Column[], bar: number}}
 */
export function layoutFor(width, rows, only) {
  const isSaid = rows.some(({ client }) => client !== null);
  const told = COLUMNS.filter(({ name }) => name !== "client" || isSaid);
  const columns = fitting(
    told,
    width - BAR,
    LESS.filter((name) => name !== only),
  );
  return { columns, bar: Math.max(BAR, width - widthOf(columns)) };
}
