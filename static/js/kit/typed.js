// A field that keeps what is being typed in it: other parts of the page change meanwhile, and a field drawn anew would
// forget it.

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "./html.js";

/**
 * An input showing `value`, or what is being typed until that is taken (`onChange`) or the field is left. Other
 * attributes are the input's.
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
