// The one tooltip of the page, and what shows it.

import { useEffect, useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { signal } from "../../vendor/signals/signals.js";
import { html } from "./html.js";

/** @typedef {import("./html.js").Children[]} Lines what a tooltip says: texts or nodes; null and "" are left out */

const EDGE = 8; // px kept free at the window's edges
const LEAVING = 150; // ms in which the pointer may come from the word to the tooltip

/**
 * What is shown, in page pixels; null when nothing is. `of`: the element that it explains, where it is one.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<
 *   {x: number, y: number, bottom: number, lines: Lines, of: Element | null} | null>}
 */
export const tip = signal(null);

/** @type {ReturnType<typeof setTimeout> | undefined} */
let leaving; // the pointer has left the word and may be on its way to the tooltip

/**
 * @param {Element} element what the lines explain
 * @param {Lines} lines
 */
export function showTip(element, lines) {
  const box = element.getBoundingClientRect();
  clearTimeout(leaving);
  tip.value = { x: box.left + box.width / 2, y: box.top, bottom: box.bottom, lines, of: element };
}

/**
 * Show the lines beside the pointer.
 *
 * @param {number} x
 * @param {number} y
 * @param {Lines} lines
 */
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
  leaving = setTimeout(hideTip, LEAVING);
};

/**
 * Attributes that show `lines` while an element is pointed at, touched or focused.
 *
 * @param {Lines | (() => Lines)} lines
 */
export function tips(lines) {
  /** @param {Event} event */
  const show = (event) =>
    showTip(/** @type {Element} */ (event.currentTarget), typeof lines === "function" ? lines() : lines);
  // A finger leaves as soon as it is lifted: what it touched has the focus then, and keeps the tooltip until it loses
  // it.
  return {
    onPointerEnter: show,
    onFocus: show,
    /** @param {PointerEvent} event */
    onPointerLeave: (event) => event.pointerType !== "touch" && hideSoon(),
    onBlur: hideTip,
  };
}

/**
 * The one tooltip: above what it explains, else below; never cut at an edge. Escape and scrolling put it away, and so
 * does the pointer when it leaves, but not from a word that has the focus: the tooltip may have moved there from under
 * it.
 */
export function Tooltip() {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = tip.value;
  useLayoutEffect(() => {
    const box = ref.current;
    if (!shown || !box) return;
    const [width, height] = [box.offsetWidth, box.offsetHeight];
    const above = shown.y - EDGE - height;
    const top = above >= EDGE ? above : shown.bottom + EDGE;
    box.style.left = `${Math.max(EDGE, Math.min(shown.x - width / 2, innerWidth - width - EDGE))}px`;
    box.style.top = `${Math.max(EDGE, Math.min(top, innerHeight - height - EDGE))}px`;
  }, [shown]);
  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const onEscape = (event) => event.key === "Escape" && hideTip();
    const scrolled = () => {
      const now = tip.peek();
      if (now?.of && now.of === document.activeElement)
        showTip(now.of, now.lines); // what has the focus was scrolled into sight
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
