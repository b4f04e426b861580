// Columns of the request table: their contents, their widths, and which of them fit.

import { signal } from "../../../vendor/signals/signals.js";
import { bytesText, grouped, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { fitting, widthOf } from "../../kit/request_table.js";

/** @import {Row} from "../../core/requests.js" */

/**
 * @typedef {Exclude<keyof Row, "seq" | "parts" | "until">} ColumnName
 * @typedef {{name: ColumnName, width: number, text: (row: Row) => import("../../kit/html.js").Children}} Column
 *   `width`: px
 */

/** Name with the sequence's swatch, which tells outputs of one request apart. @param {Row} row */
const nameOf = (row) => html`<${Swatch} id=${row.seq} /><span class="request-name">${row.request}</span>`;

/** @type {(name: ColumnName & ("prompt" | "output")) => (row: Row) => string} */
const count = (name) => (row) => grouped(row[name]);
/**
 * Format a count; zero is shown as a dot.
 * @type {(name: "hit" | "preempted" | "lost" | "slow") => (row: Row) => string}
 */
const some = (name) => (row) => (row[name] ? grouped(row[name]) : "·");
/** @type {(name: "queue" | "ttft" | "tpot") => (row: Row) => string} */
const seconds = (name) => (row) => secondsText(row[name]);

/** @type {(name: "lane" | "prefill" | "moving" | "decode" | "away") => (row: Row) => string} */
const spent = (name) => (row) => (row[name] ? secondsText(row[name]) : "·");

/** @type {Column[]} */
const COLUMNS = [
  { name: "request", width: 104, text: nameOf },
  { name: "client", width: 84, text: (row) => row.client ?? "·" },
  { name: "begin", width: 62, text: (row) => secondsText(row.begin) },
  { name: "prompt", width: 54, text: count("prompt") },
  { name: "output", width: 54, text: count("output") },
  { name: "hit", width: 46, text: some("hit") },
  { name: "missed", width: 62, text: (row) => (row.missed === null ? "·" : secondsText(row.missed)) },
  { name: "lane", width: 58, text: spent("lane") },
  { name: "queue", width: 62, text: seconds("queue") },
  { name: "prefill", width: 58, text: spent("prefill") },
  { name: "moving", width: 58, text: spent("moving") },
  { name: "moved", width: 66, text: (row) => bytesText(row.moved) },
  { name: "decode", width: 58, text: spent("decode") },
  { name: "ttft", width: 62, text: seconds("ttft") },
  { name: "tpot", width: 62, text: seconds("tpot") },
  { name: "preempted", width: 72, text: some("preempted") },
  { name: "away", width: 58, text: spent("away") },
  { name: "lost", width: 48, text: some("lost") },
  { name: "slow", width: 44, text: some("slow") },
  { name: "end", width: 72, text: (row) => t(`timeline.end.${row.end}`) },
];
export const NAMES = COLUMNS.map(({ name }) => name);
/** Columns of text. @type {ReadonlySet<string>} */
export const LETTERED = new Set(["request", "client", "end"]);
/** Columns that are empty in most runs. @type {ReadonlySet<string>} */
const RARE = new Set(["client", "lane", "moving", "moved"]);
/** Columns in the order in which they are dropped when space is short. A request's story still shows them. */
const LESS = /** @type {ColumnName[]} */ (
  "slow lost missed end decode prefill away prompt lane queue tpot begin hit output moving moved client".split(" ")
);
/** Columns beside the timeline bar at its maximum width. @type {ColumnName[]} */
const BESIDE = ["request", "client", "ttft", "preempted"];
const BAR = { least: 150, room: 480 }; // px of a bar, with room for its head; px of the table from which bars are shown

/**
 * Return the columns that fit into `width` px beside the bars, and the width of a bar, 0 if there is no room. With
 * `timeline` the bar has priority. The column `only`, used as a filter, is kept.
 * @param {number} width
 * @param {boolean} [timeline]
 * @param {readonly Row[]} [rows] columns that are empty in all of them are dropped
 * @param {string | null} [only]
 * @returns {{columns: Column[], bar: number}}
 */
export function layoutFor(width, timeline = false, rows = [], only = null) {
  const shown = COLUMNS.filter(({ name }) => !RARE.has(name) || rows.some((row) => row[name]));
  if (!timeline) {
    if (width < BAR.room) return { columns: columnsFor(width, shown, only), bar: 0 };
    const columns = columnsFor(width - BAR.least, shown, only);
    return { columns, bar: width - widthOf(columns) };
  }
  const columns = columnsFor(
    width - Math.max(BAR.least, width / 2),
    shown.filter(({ name }) => BESIDE.includes(name) || name === only),
    only,
  );
  return { columns, bar: width - widthOf(columns) };
}

/**
 * Return the columns that fit into `width` px.
 * @param {number} width
 * @param {Column[]} [columns]
 * @param {string | null} [only]
 */
export const columnsFor = (width, columns = COLUMNS, only = null) =>
  fitting(
    columns,
    width,
    LESS.filter((name) => name !== only),
  );

// View state of the request table.

/** Whether the outliers are beside the table in wide layouts. Without them every column fits. */
export const aside = signal(true);
/** Whether bars take the space of most columns. */
export const showsBars = signal(false);
/**
 * Whether bars start at the request's submission instead of the start of the run; null: whichever shows more.
 * @type {import("../../../vendor/signals/signals.js").Signal<boolean | null>}
 */
export const ownStart = signal(null);
