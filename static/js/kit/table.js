// Tables of more columns than have room, in an order that a setting names: which columns stand there, and by which the
// rows are sorted; and its parts: sortable heads, and the space of rows that are not in the document.

import { settings } from "../state/settings.js";
import { html } from "./html.js";

/**
 * @template {string} N
 * @typedef {{name: N, width: number}} Wide px
 */

/** @param {readonly {width: number}[]} columns px */
export const widthOf = (columns) => columns.reduce((sum, column) => sum + column.width, 0);

/**
 * The columns that fit into `width` px; those of `less` go first, in its order.
 *
 * @template {Wide<string>} C
 * @param {readonly C[]} columns
 * @param {number} width
 * @param {readonly string[]} less
 */
export function fitting(columns, width, less) {
  let found = [...columns];
  for (const name of less) if (widthOf(found) > width) found = found.filter((column) => column.name !== name);
  return found;
}

/**
 * The order that a setting's text names: a column, from its largest on where a minus stands before it.
 *
 * @template {string} N
 * @param {string | null} text
 * @param {readonly N[]} names of columns
 * @returns {{column: N | "seq", down: boolean}} by default in the order in which they came
 */
export function orderOf(text, names) {
  const wanted = text?.replace(/^-/, "");
  const column = names.find((name) => name === wanted);
  return { column: column ?? "seq", down: Boolean(column && text?.startsWith("-")) };
}

/**
 * The setting after a column's head was pressed: its largest first, then its smallest, then as they came.
 *
 * @param {string | null} text
 * @param {string} name
 * @param {boolean} [lettered] its words come from the first letter on
 */
export function nextOrder(text, name, lettered = false) {
  const ways = lettered ? [name, `-${name}`] : [`-${name}`, name];
  return [...ways, null][(ways.indexOf(text ?? "") + 1) % 3];
}

/**
 * The head of a column, which a press sorts by.
 *
 * @param {{name: string, width: number | null, names: readonly string[], lettered: ReadonlySet<string>, text: string,
 *   about: object}} props `width`: px, null: what is left; `names`: of all columns; `about`: attributes that explain it
 */
export function SortHead({ name, width, names, lettered, text, about }) {
  const { column, down } = orderOf(settings.sort.value, names);
  const order = column === name ? (down ? "descending" : "ascending") : "none";
  return html`<th scope="col" aria-sort=${order} data-column=${name}
    style=${{ width: width === null ? "auto" : `${width}px` }}><button ...${about}
      onClick=${() => (settings.sort.value = nextOrder(settings.sort.value, name, lettered.has(name)))}
      >${text}<span class="sort-order" aria-hidden="true">${
        { none: "", ascending: " ▴", descending: " ▾" }[order]
      }</span></button></th>`;
}

/** The rows that are not in the document. @param {{rows: number, high: number}} props */
export const Space = ({ rows, high }) =>
  rows > 0 ? html`<tr aria-hidden="true"><td style=${{ height: `${rows * high}px` }}></td></tr>` : null;
