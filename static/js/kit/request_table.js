// Parts of request tables: filters by client and by criterion, column selection by width, the order stored in a
// setting, sortable column heads, and spacers for rows that are not in the document.

import { useMemo } from "../../vendor/preact/hooks.js";
import { MINUTE, ONLY } from "../core/requests.js";
import { t } from "../i18n/words.js";
import { settings } from "../state/settings.js";
import { html } from "./html.js";
import { Select } from "./inputs.js";

/**
 * @template {string} N
 * @typedef {{name: N, width: number}} Wide column with its width in px
 */

/** @param {readonly {width: number}[]} columns px */
export const widthOf = (columns) => columns.reduce((sum, column) => sum + column.width, 0);

/**
 * Return the columns that fit into `width` px; columns in `less` are dropped first, in that order.
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
 * Parse an order in a setting: a column name, with a leading minus if descending.
 * @template {string} N
 * @param {string | null} text
 * @param {readonly N[]} names of columns
 * @returns {{column: N | "seq", down: boolean}} the original order if none is set
 */
export function orderOf(text, names) {
  const requested = text?.replace(/^-/, "");
  const column = names.find((name) => name === requested);
  return { column: column ?? "seq", down: Boolean(column && text?.startsWith("-")) };
}

/**
 * Return the next setting after a press on a column's head: descending, then ascending, then the original order.
 * @param {string | null} text
 * @param {string} name
 * @param {boolean} [lettered] whether the column sorts alphabetically, ascending first
 */
export function nextOrder(text, name, lettered = false) {
  const orders = lettered ? [name, `-${name}`] : [`-${name}`, name];
  return [...orders, null][(orders.indexOf(text ?? "") + 1) % 3];
}

/**
 * Column head that sorts by its column when pressed.
 * @param {{name: string, width: number | null, names: readonly string[], lettered: ReadonlySet<string>, text: string,
 *   about: object}} props `width`: px, null: the remaining width; `names`: of all columns; `about`: attributes with the
 * explanation
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

/** Spacer for rows that are not in the document. @param {{rows: number, high: number}} props */
export const Space = ({ rows, high }) =>
  rows > 0 ? html`<tr aria-hidden="true"><td style=${{ height: `${rows * high}px` }}></td></tr>` : null;

const NAMES = /** @type {(keyof typeof ONLY)[]} */ (Object.keys(ONLY));

/** @param {{rows: readonly {client: string | null}[]}} props all rows, including hidden ones */
export function RequestChoices({ rows }) {
  const clients = useMemo(() => clientsOf(rows), [rows]);
  return html`${
    clients.length
      ? html`<${Select} id="requests-client" aria-label=${t("whose")} title=${t("whose")} value=${settings.client.value}
          choices=${[["", t("whose.all")], ...clients.map((name) => [name, name])]}
          commit=${(/** @type {string} */ name) => (settings.client.value = name || null)} />`
      : null
  }
    <${Select} id="requests-only" aria-label=${t("only")} title=${t("only.rule", { seconds: MINUTE })}
      value=${settings.only.value} choices=${[["", t("only.all")], ...NAMES.map((name) => [name, t(`only.${name}`)])]}
      commit=${(/** @type {string} */ name) => (settings.only.value = NAMES.find((one) => one === name) ?? null)} />`;
}

/** @param {readonly {client: string | null}[]} rows */
const clientsOf = (rows) => [...new Set(rows.flatMap(({ client }) => client ?? []))].sort();

/** Return the active criterion as a sentence; "" if there is none. */
export const onlyRule = () => (settings.only.value ? t(`only.${settings.only.value}.rule`, { seconds: MINUTE }) : "");

/** Return the reason that no row is shown. */
export const noneText = () =>
  settings.only.value
    ? t(`only.none.${settings.only.value}`)
    : settings.find.value
      ? t("find.none", { text: settings.find.value })
      : t("whose.none", { client: settings.client.value ?? "" });
