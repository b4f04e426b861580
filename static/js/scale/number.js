// Number from the server with its formula, which expands to show the values of its symbols.

import { bytesText, grouped, secondsText, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { FactorSources } from "./sources.js";

/** @import {SourceFacts} from "./sources.js" */

/**
 * As defined in `engine/accounting/derived.py`.
 *
 * @typedef {{symbol: string, value: number, meaning: string, of: string}} Factor
 * @typedef {{id: string, value: number, unit: string, formula: string, factors: Factor[]}} Derived
 * @typedef {{kind: string, right: string, wrong: Derived}} Mistake
 */

const SYMBOL = /[\p{L}_][\p{L}\p{N}_]*/gu;
const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** @param {Derived} number */
export function valueText({ value, unit }) {
  if (unit === "B") return value < 0 ? `−${bytesText(-value)}` : bytesText(value);
  if (unit === "s") return secondsText(value);
  if (unit === "B/s" || unit === "bit/s") return value > 0 ? decimalText(value, unit) : `0\u2009${unit}`;
  const text = grouped(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
  return unit === "1" ? text : t("scale.with_unit", { value: text, unit: t(`scale.unit.${unit}`) });
}

/** Format a rate in decimal units with three digits: 312 TFLOP/s. @param {number} value @param {string} unit */
export function decimalText(value, unit) {
  const power = Math.max(0, Math.min(PREFIXES.length - 1, Math.floor(Math.log10(value) / 3)));
  return `${Number((value / 1000 ** power).toPrecision(3))}\u2009${PREFIXES[power]}${unit}`;
}

/** Return the formula with values in place of its symbols. @param {Derived} number */
function withNumbers({ formula, factors }) {
  const values = new Map(factors.map(({ symbol, value }) => [symbol, value]));
  return formula.replace(SYMBOL, (symbol) => {
    const value = values.get(symbol);
    return value === undefined ? symbol : plainText(value);
  });
}

/** @param {number} value */
function plainText(value) {
  const text = sixDigits(value);
  return value < 0 ? `(${text})` : text;
}

/** Format a number with six significant digits, and integers in full. @param {number} value */
const sixDigits = (value) => grouped(Number.isInteger(value) ? value : Number(value.toPrecision(6)));

/**
 * Number with its derivation. `section`: section whose words name the number and its factors. `mistakes`: common
 * mistakes; only mistakes about this number are shown. `sources`: sources of factors that come from presets.
 * @param {{number: Derived, section: string, mistakes?: Mistake[], sources?: SourceFacts[]}} props
 */
export function ScaleNumber({ number, section, mistakes = [], sources = [] }) {
  const wrong = mistakes.filter(({ right }) => right === number.id);
  const exact = sixDigits(number.value);
  return html`<details class="scale-number" data-number=${number.id} data-value=${number.value}>
    <summary><span>${t(`scale.${section}.${number.id.replace(/\d+$/, "")}`)}</span><b>${valueText(number)}</b></summary>
    <div class="scale-formula">
      <p>${number.formula} = ${exact}${number.unit === "B" ? " B" : ""}</p>
      <p data-with-numbers>= ${withNumbers(number)}</p>
      <ul>
        ${number.factors.map(
          ({ symbol, value, meaning }) =>
            html`<li key=${symbol}>${symbol} = ${sixDigits(value)}: ${t(`scale.${section}.${meaning}`)}</li>`,
        )}
      </ul>
      <${FactorSources} factors=${number.factors} sources=${sources} />
      ${wrong.map((one) => html`<${CommonMistake} key=${one.kind} mistake=${one} section=${section} />`)}
    </div>
  </details>`;
}

/** Result of a common mistake. @param {{mistake: Mistake, section: string}} props */
function CommonMistake({ mistake: { kind, wrong }, section }) {
  return html`<p class="scale-often" data-mistake=${kind} data-value=${wrong.value}>
    ${t(`scale.${section}.mistake`)}: <s>${valueText(wrong)}</s> (${wrong.formula} = ${withNumbers(wrong)}),${" "}
    ${t(`scale.${section}.mistake.${kind}`)}
  </p>`;
}
