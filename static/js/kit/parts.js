// Small parts of text: terms with a definition, fidelity marks, swatches of sequences, icons.

import { useEffect, useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { signal } from "../../vendor/signals/signals.js";
import { termOf } from "../tell/glossary.js";
import { t } from "../tell/words.js";
import { html } from "./html.js";

/** What the one tooltip shows: {x, y, bottom, lines: [text or vnode], of: element or null} in page pixels, or null. */
export const tip = signal(null);
let leaving = null; // the pointer has left the word and may be on its way to the tooltip

export function showTip(element, lines) {
  const box = element.getBoundingClientRect();
  clearTimeout(leaving);
  tip.value = { x: box.left + box.width / 2, y: box.top, bottom: box.bottom, lines, of: element };
}

export function tipAt(x, y, lines) {
  clearTimeout(leaving);
  tip.value = { x, y: y - 6, bottom: y + 14, lines, of: null };
}

export function hideTip() {
  clearTimeout(leaving);
  tip.value = null;
}

const hideSoon = () => {
  clearTimeout(leaving);
  leaving = setTimeout(hideTip, 150);
};

/** Attributes that show `lines` while an element is pointed at, touched or focused. */
export function tips(lines) {
  const show = (event) => showTip(event.currentTarget, typeof lines === "function" ? lines() : lines);
  // A finger leaves as soon as it is lifted: what it touched has the focus then, and keeps the tooltip until it loses it.
  return {
    onPointerEnter: show,
    onFocus: show,
    onPointerLeave: (event) => event.pointerType !== "touch" && hideSoon(),
    onBlur: hideTip,
  };
}

/** A word of the field: dotted underline, its definition in both languages. */
export function Term({ id, children }) {
  const { own, other, otherLanguage } = termOf(id);
  const lines = () => [
    html`<b>${own[0]}</b>`,
    own[1],
    html`<span class="tip-other" lang=${otherLanguage.html}>${other[0]} — ${other[1]}</span>`,
  ];
  return html`<span class="term" tabindex="0" role="term" aria-description=${`${own[0]}: ${own[1]}`} ...${tips(lines)}
    >${children ?? own[0]}</span
  >`;
}

const FIDELITY = { captured: "●", derived: "○", schematic: "◇" };

/** ● captured, ○ derived (with its formula), ◇ schematic. */
export function Fidelity({ kind, formula = "" }) {
  const text = t(`fidelity.${kind}`, { formula });
  return html`<span class="fidelity" tabindex="0" role="img" aria-label=${text} ...${tips([text])}>${FIDELITY[kind]}</span>`;
}

/** Colour and texture of a sequence. */
export function Swatch({ id }) {
  return html`<span class=${`swatch seq-${id % 8}`} aria-hidden="true"></span>`;
}

const EDGE = 8; // px kept free at the window's edges

/**
 * The one tooltip: above what it explains, else below; never cut at an edge. Escape and scrolling put it away, and so does
 * the pointer when it leaves, but not from a word that has the focus: the tooltip may have moved there from under it.
 */
export function Tooltip() {
  const ref = useRef(null);
  const shown = tip.value;
  useLayoutEffect(() => {
    const box = ref.current;
    if (!shown) return;
    const [width, height] = [box.offsetWidth, box.offsetHeight];
    const above = shown.y - EDGE - height;
    const top = above >= EDGE ? above : shown.bottom + EDGE;
    box.style.left = `${Math.max(EDGE, Math.min(shown.x - width / 2, innerWidth - width - EDGE))}px`;
    box.style.top = `${Math.max(EDGE, Math.min(top, innerHeight - height - EDGE))}px`;
  }, [shown]);
  useEffect(() => {
    const onEscape = (event) => event.key === "Escape" && hideTip();
    const scrolled = () => {
      const { of, lines } = tip.peek() ?? {};
      if (of && of === document.activeElement)
        showTip(of, lines); // what has the focus was scrolled into sight
      else hideTip();
    };
    document.addEventListener("keydown", onEscape);
    document.addEventListener("scroll", scrolled, true);
    return () => {
      document.removeEventListener("keydown", onEscape);
      document.removeEventListener("scroll", scrolled, true);
    };
  }, []);
  return html`<div
    class=${shown?.of ? "tooltip" : "tooltip at-pointer"}
    role="tooltip"
    id="tooltip"
    hidden=${!shown}
    ref=${ref}
    onPointerEnter=${() => clearTimeout(leaving)}
    onPointerLeave=${() => tip.peek()?.of !== document.activeElement && hideTip()}
  >
    ${shown?.lines.filter(Boolean).map((line) => html`<div>${line}</div>`)}
  </div>`;
}

const PATHS = {
  first: "M4 3v10 M13 3 6.5 8 13 13z",
  back: "M11.5 3 5 8l6.5 5z",
  forward: "M4.5 3 11 8l-6.5 5z",
  last: "M12 3v10 M3 3l6.5 5L3 13z",
  finish: "M1.5 3 6 8l-4.5 5z M7 3l4.5 5L7 13z M13.5 3v10",
  run: "M4.5 2.5 13 8l-8.5 5.5z",
  play: "M4.5 2.5 13 8l-8.5 5.5z",
  pause: "M5 3v10 M11 3v10",
  step: "M3 3l6 5-6 5z M12 3v10",
  prefill: "M2.5 4.5h11 M2.5 8h11 M2.5 11.5h7",
  reset: "M3.2 6.2A5.2 5.2 0 1 1 3 9.5 M3 2.8v3.6h3.6",
  share:
    "M6.5 9.5l4-4 M7.5 4.5l1.3-1.3a2.7 2.7 0 0 1 3.9 3.9L11.4 8.4 M8.5 11.5l-1.3 1.3a2.7 2.7 0 0 1-3.9-3.9l1.3-1.3",
  download: "M8 2.5v7.5 M4.8 7 8 10.2 11.2 7 M3 13.3h10",
  done: "M3 8.5 6.5 12 13 4.5",
  todo: "M8 3a5 5 0 1 0 0 10a5 5 0 1 0 0-10",
  picture: "M2.5 3.5h11v9h-11z M3 11l3.2-3.4 2.4 2.4 1.8-1.6 2.6 2.6 M10.6 6.2v.1",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11z M8 2.5a5.5 5.5 0 0 1 0 11",
  help: "M5.8 6.2a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6 M8 12.4v.2",
  add: "M8 3v10 M3 8h10",
  fork: "M4.5 3v10 M4.5 9.5c0-3 7-1.5 7-6 M9.3 5.6l2.2-2.3 2.2 2.3",
  larger: "M4 9.5 8 5.5l4 4",
  smaller: "M4 6.5l4 4 4-4",
  close: "M4 4l8 8 M12 4l-8 8",
};
const SOLID = new Set(["first", "back", "forward", "last", "finish", "run", "step"]);

export function Icon({ name }) {
  return html`<svg class=${SOLID.has(name) ? "icon solid" : "icon"} viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
