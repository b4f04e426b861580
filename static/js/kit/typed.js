// A field that keeps what is being typed in it: other parts of the page change meanwhile, and a field drawn anew would
// forget it.

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "./html.js";

/**
 * An input showing `value`, or what is being typed until that is taken (`onChange`) or the field is left. Other
 * attributes are the input's.
 */
export function Typed({ value, onChange, ...rest }) {
  const [typed, setTyped] = useState(null);
  const taken = (event) => {
    onChange(event);
    setTyped(null);
  };
  return html`<input ...${rest} value=${typed ?? value} onInput=${(event) => setTyped(event.currentTarget.value)}
    onChange=${onChange && taken} onBlur=${() => setTyped(null)} />`;
}
