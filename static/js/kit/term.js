// A word of the field with its definition.

import { termOf } from "../tell/glossary.js";
import { html } from "./html.js";
import { tips } from "./tooltip.js";

/**
 * Dotted underline; the tooltip has the definition in both languages.
 *
 * @param {{id: string, children?: import("./html.js").Children}} props the glossary's entry; other words than its own
 */
export function Term({ id, children }) {
  const found = termOf(id);
  if (!found) return html`<span>${children ?? id}</span>`;
  const { own, other, otherLanguage } = found;
  const lines = () => [
    html`<b>${own[0]}</b>`,
    own[1],
    html`<span class="tip-other" lang=${otherLanguage?.html}>${other[0]} — ${other[1]}</span>`,
  ];
  return html`<span class="term" tabindex="0" role="term" aria-description=${`${own[0]}: ${own[1]}`} ...${tips(lines)}
    >${children ?? own[0]}</span
  >`;
}
