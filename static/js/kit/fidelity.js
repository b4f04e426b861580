// The mark of what a shown value is: captured, derived or schematic. All marks of the page are one stop of the Tab key;
// arrow keys go from one to the next.

import { t } from "../tell/words.js";
import { html } from "./html.js";
import { tips } from "./tooltip.js";

const MARKS = { captured: "●", derived: "○", schematic: "◇" };
const SELECTOR = ".fidelity";

/**
 * ● captured, ○ derived (with its formula), ◇ schematic.
 *
 * @param {{kind: keyof typeof MARKS, formula?: string}} props
 */
export function Fidelity({ kind, formula = "" }) {
  const text = t(`fidelity.${kind}`, { formula });
  const byKey = () => document.activeElement?.matches(`${SELECTOR}:focus-visible`);
  return html`<span class="fidelity" tabindex="-1" data-arrows role="img" aria-label=${text}
    ...${tips(() => [text, byKey() ? t("fidelity.keys") : null])}>${MARKS[kind]}</span>`;
}

/** The marks that can be seen, in the order of the page. */
const marks = () =>
  /** @type {HTMLElement[]} */ ([...document.querySelectorAll(SELECTOR)]).filter((mark) => mark.checkVisibility());

/** @type {Record<string, (at: number, last: number) => number>} */
const MOVES = {
  ArrowLeft: (at) => at - 1,
  ArrowUp: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  ArrowDown: (at) => at + 1,
  Home: () => 0,
  End: (_, last) => last,
};

/** Make the page's marks one stop: where one was last, else the first. Which are there is known when Tab is pressed. */
export function roveMarks() {
  /** @type {Element | null} */
  let last = null;
  document.addEventListener(
    "keydown",
    (event) => {
      const target = /** @type {Element} */ (event.target);
      const at = target.closest?.(SELECTOR) ?? null;
      if (at) last = at;
      if (event.key === "Tab") return offer(last);
      if (!at || !(event.key in MOVES) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const all = marks();
      const to = MOVES[event.key](all.indexOf(/** @type {HTMLElement} */ (at)), all.length - 1);
      all[Math.max(0, Math.min(all.length - 1, to))].focus();
    },
    true,
  );
}

/** @param {Element | null} last the mark that had the focus last */
function offer(last) {
  const all = marks();
  const stop = all.find((mark) => mark === last) ?? all[0];
  for (const mark of all) mark.tabIndex = mark === stop ? 0 : -1;
}
