// Scrolls new parts of a lesson into view: their beginning first, then as much of the rest as fits.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { still } from "../../state/playhead.js";

const MARGIN = 20; // px between new parts and the edges of the lesson

/**
 * Scroll the range between two elements into view. If the focused element was removed or disabled, focus the enabled
 * input of the form, or else the range.
 * @param {Element} first @param {Element} last
 * @param {boolean} [isAnimated] whether the scroll is animated
 */
export function follow(first, last, isAnimated = true) {
  const column = first.closest(".lesson");
  if (!column) return;
  const head = column.querySelector(".lesson-head");
  const isStuck = head && getComputedStyle(head).position === "sticky";
  const view = column.getBoundingClientRect();
  const top = view.top + (isStuck ? head.getBoundingClientRect().height : 0) + MARGIN;
  const overflow = last.getBoundingClientRect().bottom - (view.bottom - MARGIN);
  const distance = Math.min(Math.max(0, overflow), first.getBoundingClientRect().top - top);
  const behavior = isAnimated && !still.peek() ? "smooth" : "instant";
  if (Math.abs(distance) > 1) column.scrollBy({ top: distance, behavior });
  const focused = document.activeElement; // a disabled element keeps the focus until the next frame
  if (focused !== document.body && !focused?.matches(":disabled")) return;
  const target = first.closest("form")?.querySelector("input:enabled") ?? first;
  /** @type {HTMLElement} */ (target).focus({ preventScroll: true });
}

/**
 * Return a ref for an element that is scrolled into view each time `count` grows.
 * @param {number} count
 * @param {boolean} isLast whether the lesson continues after it; the article then scrolls to all new parts
 */
export function useScrollIntoView(count, isLast) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const previous = useRef(count);
  useLayoutEffect(() => {
    if (previous.current !== count && !isLast && ref.current) follow(ref.current, ref.current);
    previous.current = count;
  }, [count]);
  return ref;
}
