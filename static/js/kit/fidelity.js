// Mark for the fidelity of a shown value: captured, derived or schematic. All marks of the page are a single Tab stop;
// arrow keys move between them.

import { t } from "../i18n/words.js";
import { html } from "./html.js";
import { tips } from "./tooltip.js";

const MARKS = { captured: "●", derived: "○", schematic: "◇" };
const SELECTOR = ".fidelity";

/**
 * Mark: ● captured, ○ derived (with its formula), ◇ schematic.
 * @param {{kind: keyof typeof MARKS, formula?: string}} props
 */
export function Fidelity({ kind, formula = "" }) {
  const text = t(`fidelity.${kind}`, { formula });
  const byKey = () => document.activeElement?.matches(`${SELECTOR}:focus-visible`);
  return html`<span class="fidelity" tabindex="-1" data-arrows role="img" aria-label=${text}
    ...${tips(() => [text, byKey() ? t("fidelity.keys") : null])}>${MARKS[kind]}</span>`;
}
