// The page's single tooltip and its triggers.

import { useEffect, useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { signal } from "../../vendor/signals/signals.js";
import { html } from "./html.js";

/** @typedef {import("./html.js").Children[]} Lines content of a tooltip: texts or nodes; null and "" are left out */

const EDGE = 8; // px kept free at the window's edges
const LEAVING = 150; // ms for the pointer to move from the word to the tooltip

/**
 * Current tooltip, in page pixels; null if hidden. `of`: the explained element, if there is one.
 * @type {import("../../vendor/signals/signals.js").Signal<
 *   {x: number, y: number, bottom: number, lines: Lines, of: Element | null} | null>}
 */
const tip = signal(null);

/** @type {ReturnType<typeof setTimeout> | undefined} */
let leaving; // the pointer has left the word and may be moving to the tooltip

/** @param {Element} element what the lines explain @param {Lines} lines */
export function showTip(element, lines) {
  const box = element.getBoundingClientRect();
  clearTimeout(leaving);
  tip.value = { x: box.left + box.width / 2, y: box.top, bottom: box.bottom, lines, of: element };
}

/** Show the lines beside the pointer. @param {number} x @param {number} y @param {Lines} lines */
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
 * Return attributes that show `lines` while an element is hovered, touched or focused.
 * @param {Lines | (() => Lines)} lines
 */
export function tips(lines) {
  /** @param {Event} event */
  const show = (event) =>
    showTip(/** @type {Element} */ (event.currentTarget), typeof lines === "function" ? lines() : lines);
  // Touch: the pointer leaves as soon as the finger is lifted, but the element is focused and keeps the tooltip until
  // it loses the focus.
  return {
    onPointerEnter: show,
    onFocus: show,
    /** @param {PointerEvent} event */
    onPointerLeave: (event) => event.pointerType !== "touch" && hideSoon(),
    onBlur: hideTip,
  };
}

/**
 * The page's tooltip: above the explained element, else below, and inside the window. Escape and scrolling close it,
 * and so does a leaving pointer unless the word is focused: the tooltip may have moved away from the pointer.
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
        showTip(now.of, now.lines); // the focused element was scrolled into view
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
