// A number of the server's with its formula, which opens with the numbers in it.

import { html } from "../kit/html.js";
import { bytesText, grouped, t } from "../tell/words.js";

/**
 * As `engine/accounting/derived.py` has it.
 *
 * @typedef {{symbol: string, value: number, meaning: string, of: string}} Factor
 * @typedef {{id: string, value: number, unit: string, formula: string, factors: Factor[]}} Derived
 */

/** @param {Derived} number */
export function valueText({ value, unit }) {
  if (unit === "B") return value < 0 ? `−${bytesText(-value)}` : bytesText(value);
  const text = grouped(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
  return unit === "1" ? text : t("scale.with_unit", { value: text, unit: t(`scale.unit.${unit}`) });
}

/** @param {{number: Derived, section: string}} props `section`: whose words say what the number and its factors are */
export function ScaleNumber({ number, section }) {
  const exact = grouped(Number.isInteger(number.value) ? number.value : Number(number.value.toPrecision(6)));
  return html`<details class="scale-number" data-number=${number.id} data-value=${number.value}>
    <summary><span>${t(`scale.${section}.${number.id}`)}</span><b>${valueText(number)}</b></summary>
    <div class="scale-formula">
      <p>${number.formula} = ${exact}${number.unit === "B" ? " B" : ""}</p>
      <ul>
        ${number.factors.map(
          ({ symbol, value, meaning }) =>
            html`<li key=${symbol}>${symbol} = ${grouped(value)}: ${t(`scale.${section}.${meaning}`)}</li>`,
        )}
      </ul>
    </div>
  </details>`;
}
