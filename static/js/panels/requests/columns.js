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

/** Name with the sequence's swatch, which distinguishes outputs of one request. @param {Row} row */
const nameOf = (row) => html`<${Swatch} id=${row.seq} /><span class="request-name">${row.request}</span>`;

/** @type {(name: ColumnName & ("prompt" | "output")) => (row: Row) => string} */
const count = (name) => (row) => grouped(row[name]);
/**
 * Format a count; zero is shown as a dot.
 * @type {(name: "hit" | "preempted" | "lost" | "slow") => (row: Row) => string}
 */
const countText = (name) => (row) => (row[name] ? grouped(row[name]) : "·");
/** @type {(name: "queue" | "ttft" | "tpot") => (row: Row) => string} */
const secondsOf = (name) => (row) => secondsText(row[name]);

/** @type {(name: "lane" | "prefill" | "moving" | "decode" | "away") => (row: Row) => string} */
const durationText = (name) => (row) => (row[name] ? secondsText(row[name]) : "·");

/** @type {Column[]} */
const COLUMNS = [
  { name: "request", width: 104, text: nameOf },
  { name: "client", width: 84, text: (row) => row.client ?? "·" },
  { name: "begin", width: 62, text: (row) => secondsText(row.begin) },
  { name: "prompt", width: 54, text: count("prompt") },
  { name: "output", width: 54, text: count("output") },
  { name: "hit", width: 46, text: countText("hit") },
  { name: "missed", width: 62, text: (row) => (row.missed === null ? "·" : secondsText(row.missed)) },
  { name: "lane", width: 58, text: durationText("lane") },
  { name: "queue", width: 62, text: secondsOf("queue") },
  { name: "prefill", width: 58, text: durationText("prefill") },
  { name: "moving", width: 58, text: durationText("moving") },
  { name: "moved", width: 66, text: (row) => bytesText(row.moved) },
  { name: "decode", width: 58, text: durationText("decode") },
  { name: "ttft", width: 62, text: secondsOf("ttft") },
  { name: "tpot", width: 62, text: secondsOf("tpot") },
  { name: "preempted", width: 72, text: countText("preempted") },
  { name: "away", width: 58, text: durationText("away") },
  { name: "lost", width: 48, text: countText("lost") },
  { name: "slow", width: 44, text: countText("slow") },
  { name: "end", width: 72, text: (row) => t(`timeline.end.${row.end}`) },
];
export const NAMES = COLUMNS.map(({ name }) => name);
/** Columns whose values are text. @type {ReadonlySet<string>} */
export const TEXT_COLUMNS = new Set(["request", "client", "end"]);
/** Columns that are empty in most runs. @type {ReadonlySet<string>} */
const RARE = new Set(["client", "lane", "moving", "moved"]);
/** Columns in the order in which they are dropped if they do not fit. A request's timeline shows all of them. */
const DROP_ORDER = /** @type {ColumnName[]} */ (
  "slow lost missed end decode prefill away prompt lane queue tpot begin hit output moving moved client".split(" ")
);
/** Columns that are shown beside a bar of maximum width. @type {ColumnName[]} */
const BAR_COLUMNS = ["request", "client", "ttft", "preempted"];
const BAR = { minWidth: 150, from: 480 }; // px of a bar with its head; minimum px of the table for bars

/**
 * Return the columns that fit into `width` px beside the bars, and the width of a bar (0 if it does not fit). With
 * `timeline` the bar has priority. The column `only`, which is used as a filter, is not dropped.
 * @param {number} width
 * @param {boolean} [timeline]
 * @param {readonly Row[]} [rows] columns that are empty in all of them are dropped
 * @param {string | null} [only]
 */
export function layoutFor(width, timeline = false, rows = [], only = null) {
  const shown = COLUMNS.filter(({ name }) => !RARE.has(name) || rows.some((row) => row[name]));
  if (!timeline) {
    if (width < BAR.from) return { columns: columnsFor(width, shown, only), bar: 0 };
    const columns = columnsFor(width - BAR.minWidth, shown, only);
    return { columns, bar: width - widthOf(columns) };
  }
  const columns = columnsFor(
    width - Math.max(BAR.minWidth, width / 2),
    shown.filter(({ name }) => BAR_COLUMNS.includes(name) || name === only),
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
    DROP_ORDER.filter((name) => name !== only),
  );

// View state of the request table.

/** Whether the outliers are shown beside the table in wide layouts. */
export const showsLists = signal(true);
/** Whether bars replace most columns. */
export const showsBars = signal(false);
/**
 * Whether bars start at the request's submission instead of the start of the run. Null selects the more legible one.
 * @type {import("../../../vendor/signals/signals.js").Signal<boolean | null>}
 */
export const ownStart = signal(null);
