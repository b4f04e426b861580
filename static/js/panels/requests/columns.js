// The columns of the table of requests: what stands in them, how wide they are, which of them fit.

import { html } from "../../kit/html.js";
import { Swatch } from "../../kit/swatch.js";
import { grouped, secondsText, t } from "../../tell/words.js";

/**
 * @typedef {import("../../core/requests.js").Row} Row
 * @typedef {Exclude<keyof Row, "seq">} ColumnName
 * @typedef {{name: ColumnName, width: number, text: (row: Row) => import("../../kit/html.js").Children}} Column
 *   `width`: px
 */

/** Several outputs of one request are told apart by their sequences. @param {Row} row */
const nameOf = (row) => html`<${Swatch} id=${row.seq} /><span class="request-name">${row.request}</span>`;

/** @type {(name: ColumnName & ("prompt" | "output")) => (row: Row) => string} */
const count = (name) => (row) => grouped(row[name]);
/**
 * What did not happen is no number to read.
 * @type {(name: "hit" | "preempted" | "lost" | "slow") => (row: Row) => string}
 */
const some = (name) => (row) => (row[name] ? grouped(row[name]) : "·");
/** @type {(name: "queue" | "ttft" | "tpot") => (row: Row) => string} */
const seconds = (name) => (row) => secondsText(row[name]);

/** @type {Column[]} */
const COLUMNS = [
  { name: "request", width: 104, text: nameOf },
  { name: "prompt", width: 54, text: count("prompt") },
  { name: "output", width: 54, text: count("output") },
  { name: "hit", width: 46, text: some("hit") },
  { name: "queue", width: 62, text: seconds("queue") },
  { name: "ttft", width: 62, text: seconds("ttft") },
  { name: "tpot", width: 62, text: seconds("tpot") },
  { name: "preempted", width: 72, text: some("preempted") },
  { name: "lost", width: 48, text: some("lost") },
  { name: "slow", width: 44, text: some("slow") },
  { name: "end", width: 72, text: (row) => t(`story.end.${row.end}`) },
];
/** What goes first where there is no room for all: the story of a request has it, too. @type {ColumnName[]} */
const LESS = ["end", "slow", "prompt", "queue", "lost", "tpot", "hit", "output"];

/**
 * The columns that fit into `width` px.
 * @param {number} width
 */
export function columnsFor(width) {
  let found = COLUMNS;
  const wide = () => found.reduce((sum, column) => sum + column.width, 0);
  for (const less of LESS) if (wide() > width) found = found.filter((column) => column.name !== less);
  return found;
}

/**
 * The order that a setting's text names: a column, from its largest on where a minus stands before it.
 * @param {string | null} text
 * @returns {{column: keyof Row, down: boolean}} by default in the order in which they came
 */
export function orderOf(text) {
  const name = text?.replace(/^-/, "");
  const column = COLUMNS.find((one) => one.name === name);
  return { column: column?.name ?? "seq", down: Boolean(column && text?.startsWith("-")) };
}

/**
 * The setting after a column's head was pressed: its largest first, then its smallest, then as they came; names from
 * the first letter on.
 * @param {string | null} text
 * @param {ColumnName} name
 */
export function nextOrder(text, name) {
  const ways = name === "request" || name === "end" ? [name, `-${name}`] : [`-${name}`, name];
  return [...ways, null][(ways.indexOf(text ?? "") + 1) % 3];
}
