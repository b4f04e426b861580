// A number of the server's with its formula, which opens with the numbers in it.

import { html } from "../kit/html.js";
import { bytesText, grouped, secondsText, t } from "../tell/words.js";

/**
 * As `engine/accounting/derived.py` has it.
 *
 * @typedef {{symbol: string, value: number, meaning: string, of: string}} Factor
 * @typedef {{id: string, value: number, unit: string, formula: string, factors: Factor[]}} Derived
 */

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** @param {Derived} number */
export function valueText({ value, unit }) {
  if (unit === "B") return value < 0 ? `−${bytesText(-value)}` : bytesText(value);
  if (unit === "s") return secondsText(value);
  const text = grouped(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
  return unit === "1" ? text : t("scale.with_unit", { value: text, unit: t(`scale.unit.${unit}`) });
}

/**
 * A rate in decimal units, three digits: 312 TFLOP/s.
 *
 * @param {number} value
 * @param {string} unit
 */
export function decimalText(value, unit) {
  const power = Math.max(0, Math.min(PREFIXES.length - 1, Math.floor(Math.log10(value) / 3)));
  return `${Number((value / 1000 ** power).toPrecision(3))}\u2009${PREFIXES[power]}${unit}`;
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
