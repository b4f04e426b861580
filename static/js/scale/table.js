// Table of a section, which scrolls horizontally if too wide.

import { html } from "../kit/html.js";

/** @typedef {any} Cell content of a cell, or a `td` */

/**
 * Table with row headings. `cells`: contents of a row, heading first. A row's other fields are attributes of its `tr`;
 * further props are attributes of the `table`.
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
