// The page's tooltip, of which there is one, and its triggers.

import { useEffect, useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";
import { signal } from "../../vendor/signals/signals.js";
import { html } from "./html.js";

/** @typedef {import("./html.js").Children[]} Lines content of a tooltip: texts or nodes; null and "" are omitted */

const EDGE = 8; // px; margin to the window's edges
const HIDE_DELAY = 150; // ms for the pointer to move from the element to the tooltip

/**
 * Current tooltip, in page pixels; null if hidden. `of`: the explained element, if there is one.
 * @type {import("../../vendor/signals/signals.js").Signal<
 *   {x: number, y: number, bottom: number, lines: Lines, of: Element | null} | null>}
 */
const tip = signal(null);

/** @type {ReturnType<typeof setTimeout> | undefined} */
let hideTimer; // set while the pointer may be moving from the element to the tooltip

/** @param {Element} element explained element @param {Lines} lines */
export function showTip(element, lines) {
  const box = element.getBoundingClientRect();
  clearTimeout(hideTimer);
  tip.value = { x: box.left + box.width / 2, y: box.top, bottom: box.bottom, lines, of: element };
}

/** Show the lines beside the pointer. @param {number} x @param {number} y @param {Lines} lines */
export function tipAt(x, y, lines) {
  clearTimeout(hideTimer);
  tip.value = { x, y: y - 6, bottom: y + 14, lines, of: null };
}

export function hideTip() {
  clearTimeout(hideTimer);
  tip.value = null;
}

const hideSoon = () => {
  clearTimeout(hideTimer);
  hideTimer = setTimeout(hideTip, HIDE_DELAY);
};

/**
 * Return attributes that show `lines` while an element is hovered, touched or focused.
 * @param {Lines | (() => Lines)} lines
 */
export function tips(lines) {
  /** @param {Event} event */
  const show = (event) =>
    showTip(/** @type {Element} */ (event.currentTarget), typeof lines === "function" ? lines() : lines);
  // On touch, the pointer leaves as soon as the finger is lifted, but the focused element keeps the tooltip until
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
 * The page's tooltip, above the explained element, else below, and inside the window. Escape and scrolling close it,
 * and so does a leaving pointer, unless the element is focused: the tooltip may have moved away from the pointer.
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
    const onScroll = () => {
      const now = tip.peek();
      if (now?.of && now.of === document.activeElement)
        showTip(now.of, now.lines); // the focused element was onScroll into view
      else hideTip();
    };
    document.addEventListener("keydown", onEscape);
    document.addEventListener("scroll", onScroll, true);
    return () => {
      document.removeEventListener("keydown", onEscape);
      document.removeEventListener("scroll", onScroll, true);
    };
  }, []);
  return html`<div
    class=${shown?.of ? "tooltip" : "tooltip at-pointer"}
    role="tooltip"
    id="tooltip"
    hidden=${!shown}
    ref=${ref}
    onPointerEnter=${() => clearTimeout(hideTimer)}
    onPointerLeave=${() => tip.peek()?.of !== document.activeElement && hideTip()}
  >
    ${shown?.lines.filter(Boolean).map((line) => html`<div>${line}</div>`)}
  </div>`;
}
