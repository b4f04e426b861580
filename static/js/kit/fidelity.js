// The mark of what a shown value is: captured, derived or schematic.

import { t } from "../tell/words.js";
import { html } from "./html.js";
import { tips } from "./tooltip.js";

const MARKS = { captured: "●", derived: "○", schematic: "◇" };

/**
 * ● captured, ○ derived (with its formula), ◇ schematic.
 *
 * @param {{kind: keyof typeof MARKS, formula?: string}} props
 */
export function Fidelity({ kind, formula = "" }) {
  const text = t(`fidelity.${kind}`, { formula });
  return html`<span class="fidelity" tabindex="0" role="img" aria-label=${text}
    ...${tips([text])}>${MARKS[kind]}</span>`;
}
