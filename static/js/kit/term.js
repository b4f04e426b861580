// Glossary term with its definition.

import { termOf } from "../i18n/words.js";
import { html } from "./html.js";
import { tips } from "./tooltip.js";

/**
 * Term with a dotted underline and a tooltip with the definition in both languages.
 * @param {{id: string, children?: import("./html.js").Children}} props entry of the glossary; text that replaces its
 * name
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
