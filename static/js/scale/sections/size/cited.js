// What others measured, as they printed it: beside what is computed, and not computed here.

import { html } from "../../../kit/html.js";
import { grouped, t } from "../../../tell/words.js";

/**
 * As `engine/accounting/cited.py` has it.
 *
 * @typedef {{id: string, value: number, to: number | null, unit: string, source: string, dated: string}} Fact
 */

/** @param {{facts: Fact[]}} props */
export function Cited({ facts }) {
  return html`<div class="scale-wide" tabindex="0" role="region" aria-label=${t("scale.size.cited")}>
    <table class="scale-table scale-words" id="scale-cited">
      <thead>
        <tr>
          <th scope="col">${t("scale.size.cited")}</th>
          <th scope="col">${t("scale.size.cited.printed")}</th>
          <th scope="col">${t("scale.sources.stands")}</th>
        </tr>
      </thead>
      <tbody>
        ${facts.map(
          (one) => html`<tr key=${one.id} data-fact=${one.id}>
            <th scope="row">${t(`scale.size.cited.${one.id}`)}</th>
            <td>${printed(one)}</td>
            <td>${one.source} (${one.dated.slice(0, 4)})</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** @param {Fact} fact */
function printed({ value, to, unit }) {
  const numbers =
    to === null ? grouped(value) : t("scale.size.cited.range", { value: grouped(value), to: grouped(to) });
  return t("scale.with_unit", { value: numbers, unit });
}
