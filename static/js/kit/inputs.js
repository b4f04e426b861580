// Input elements, and handlers that pass a field's value to a function.

import { useState } from "../../vendor/preact/hooks.js";
import { grouped, sentences, t } from "../i18n/words.js";
import { fits } from "../state/options.js";
import { settings } from "../state/settings.js";
import { html } from "./html.js";

/** @import {Bounds} from "../state/options.js" */
/** @import {Children} from "./html.js" */

/**
 * Input that shows `value`, or the text being typed until it is accepted (`onChange`) or the field loses the focus.
 * Other attributes go to the input.
 * @param {{
 *   value: unknown, onChange?: (event: Event) => void, onInput?: (event: Event) => void, [attribute: string]: unknown
 * }} props
 */
export function Typed({ value, onChange, onInput, ...rest }) {
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  /** @param {Event} event */
  const accept = (event) => {
    onChange?.(event);
    setTyped(null);
  };
  /** @param {Event} event */
  const typing = (event) => {
    setTyped(/** @type {HTMLInputElement} */ (event.currentTarget).value);
    onInput?.(event);
  };
  return html`<input ...${rest} value=${typed ?? value} onInput=${typing}
    onChange=${onChange && accept} onBlur=${() => setTyped(null)} />`;
}

/**
 * Input of a number within bounds. An invalid number is not committed: the bounds are shown, and blur restores
 * `value`. `none`: label of an empty input, which commits null. `eager`: commit valid numbers while typing.
 * Other attributes go to the input.
 * @param {{
 *   value: number | string | null, bounds: Bounds, none?: string, commit: (n: number | null) => void, eager?: boolean,
 *   [attribute: string]: unknown,
 * }} props
 */
export function Numeric({ value, bounds, none, commit, eager = false, ...rest }) {
  const [isInvalid, setInvalid] = useState(false);
  /** @param {Event} event */
  const read = (event) => {
    const { value: text, valueAsNumber: number, validity } = /** @type {HTMLInputElement} */ (event.currentTarget);
    const isNone = none !== undefined && text === "" && !validity.badInput;
    return { isValid: isNone || fits(number, bounds), isEmpty: text === "", number: isNone ? null : number };
  };
  /** @param {Event} event */
  const typing = (event) => {
    const { isValid, isEmpty, number } = read(event);
    setInvalid(!isValid && !isEmpty);
    if (eager && isValid) commit(number);
  };
  /** @param {Event} event */
  const change = (event) => {
    const { isValid, number } = read(event);
    setInvalid(!isValid);
    if (isValid) return void commit(number);
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    input.value = String(value ?? "");
  };
  const { min, max } = bounds;
  return html`<${Typed} type="number" inputmode="decimal" ...${rest} min=${min} max=${max} placeholder=${none ?? ""}
    value=${value ?? ""} aria-invalid=${isInvalid || null} onInput=${typing} onChange=${change}
    onFocus=${() => setInvalid(false)} />
    ${isInvalid ? html`<small class="bounds" role="status">${boundsText(bounds)}</small>` : null}`;
}

/** @param {Bounds} bounds */
function boundsText({ min, over, max, whole }) {
  const [least, most] = [min ?? over, max].map((n) => (n === null || n === undefined ? null : grouped(n)));
  const low = min === null || min === undefined ? "over" : "at_least";
  const both = low === "at_least" && least !== null && most !== null;
  const parts = both ? [t("bounds.between", { least, most })] : [];
  if (!both && least !== null) parts.push(t(`bounds.${low}`, { least }));
  if (!both && most !== null) parts.push(t("bounds.at_most", { most }));
  if (whole) parts.push(t("bounds.whole"));
  return sentences(parts.length ? parts : [t("bounds.number")]);
}

/**
 * Buttons that set the setting `name`. `text(choice)`: label; `usual`: choice shown if the setting has another value.
 * @param {{
 *   label: string, name: "answer" | "chart" | "lanes" | "overview", choices: readonly string[],
 *   text: (choice: string) => string,
 *   usual?: string,
 * }} props
 */
export function Segmented({ label, name, choices, text, usual }) {
  const setting = /** @type {import("../../vendor/signals/signals.js").Signal<string>} */ (settings[name]);
  const chosen = choices.includes(setting.value) ? setting.value : usual;
  return html`<span class="segmented-small" role="group" aria-label=${label}>
    ${choices.map(
      (choice) =>
        html`<button key=${choice} aria-pressed=${chosen === choice} id=${`${name}-${choice}`}
          onClick=${() => (setting.value = choice)}>${text(choice)}</button>`,
    )}
  </span>`;
}

/**
 * Select element. `choices`: pairs of a value and its label; `commit` gets the value as text. Other attributes go to
 * it.
 * @param {{
 *   value: string | number | null | undefined, choices: readonly (readonly [string | number, Children])[],
 *   commit: (value: string) => void, [attribute: string]: unknown,
 * }} props
 */
export const Select = ({ value, choices, commit, ...rest }) =>
  html`<select ...${rest} value=${value ?? ""} onChange=${withValue(commit)}>${choices.map(
    ([one, text]) =>
      html`<option key=${one} value=${one} selected=${String(one) === String(value ?? "")}>${text}</option>`,
  )}</select>`;

/** @param {(value: string) => void} handler @returns {(event: Event) => void} */
export const withValue = (handler) => (event) => handler(/** @type {HTMLInputElement} */ (event.currentTarget).value);

/** @param {(checked: boolean) => void} handler @returns {(event: Event) => void} */
export const withChecked = (handler) => (event) =>
  handler(/** @type {HTMLInputElement} */ (event.currentTarget).checked);
