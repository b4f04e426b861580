// Table of a section, which scrolls sideways where it is too wide.

import { html } from "../kit/html.js";

/** @typedef {any} Cell content of a cell, or a `td` */

/**
 * `cells`: of a row, its heading first; its other fields are the row's attributes. The other props are the table's.
 * @param {{
 *   label: string, heads: string[], rows: {key: string | number, cells: Cell[], [attribute: string]: unknown}[],
 *   [attribute: string]: unknown
 * }} props
 */
export function Table({ label, heads, rows, ...attributes }) {
  return html`<div class="scale-wide" tabindex="0" role="region" aria-label=${label}>
    <table class="scale-table" ...${attributes}>
      <thead>
        <tr>${heads.map((text, column) => html`<th key=${column} scope="col">${text}</th>`)}</tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ cells: [heading, ...cells], ...row }) => html`<tr ...${row}>
            <th scope="row">${heading}</th>
            ${cells.map((cell, column) => (cell?.type === "td" ? cell : html`<td key=${column}>${cell}</td>`))}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
