// Input elements, and handlers that pass a field's value to a function.

import { useState } from "../../vendor/preact/hooks.js";
import { settings } from "../state/settings.js";
import { html } from "./html.js";

/**
 * Input that shows `value`, or the text being typed until it is accepted (`onChange`) or the field loses the focus.
 * Other attributes go to the input.
 *
 * @param {{value: unknown, onChange?: (event: Event) => void, [attribute: string]: unknown}} props
 */
export function Typed({ value, onChange, ...rest }) {
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  /** @param {Event} event */
  const taken = (event) => {
    onChange?.(event);
    setTyped(null);
  };
  /** @param {Event} event */
  const typing = (event) => setTyped(/** @type {HTMLInputElement} */ (event.currentTarget).value);
  return html`<input ...${rest} value=${typed ?? value} onInput=${typing}
    onChange=${onChange && taken} onBlur=${() => setTyped(null)} />`;
}

/**
 * `name`: the setting; `text(choice)`: its label; `usual`: value shown if the setting has none of the choices.
 *
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
 * @param {(value: string) => void} take
 * @returns {(event: Event) => void}
 */
export const withValue = (take) => (event) => take(/** @type {HTMLInputElement} */ (event.currentTarget).value);

/**
 * @param {(checked: boolean) => void} take
 * @returns {(event: Event) => void}
 */
export const withChecked = (take) => (event) => take(/** @type {HTMLInputElement} */ (event.currentTarget).checked);

/**
 * @param {(input: HTMLInputElement) => void} take
 * @returns {(event: Event) => void}
 */
export const withInput = (take) => (event) => take(/** @type {HTMLInputElement} */ (event.currentTarget));
