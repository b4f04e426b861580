// Scrolls new parts of a lesson into view: their beginning first, then as much of the rest as fits.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { still } from "../../state/playhead.js";

const EDGE = 20; // px between new parts and the edges of the lesson

/**
 * Scroll the range between two elements into view. If the focused element is gone or disabled, focus the range, or the
 * input of its form if that still wants an answer.
 * @param {Element} first
 * @param {Element} last
 * @param {boolean} [isMoved] whether the scroll is animated
 */
export function follow(first, last, isMoved = true) {
  const column = first.closest(".lesson");
  if (!column) return;
  const head = column.querySelector(".lesson-head");
  const isStuck = head && getComputedStyle(head).position === "sticky";
  const sight = column.getBoundingClientRect();
  const top = sight.top + (isStuck ? head.getBoundingClientRect().height : 0) + EDGE;
  const over = last.getBoundingClientRect().bottom - (sight.bottom - EDGE); // px below the lower edge
  const by = Math.min(Math.max(0, over), first.getBoundingClientRect().top - top);
  if (Math.abs(by) > 1) column.scrollBy({ top: by, behavior: isMoved && !still.peek() ? "smooth" : "instant" });
  const at = document.activeElement; // a disabled element loses the focus with the next frame
  if (at !== document.body && !at?.matches(":disabled")) return;
  const to = first.closest("form")?.querySelector("input:enabled") ?? first;
  /** @type {HTMLElement} */ (to).focus({ preventScroll: true });
}

/**
 * Return a ref for an element that is scrolled into view each time `count` grows.
 * @param {number} count
 * @param {boolean} isLast whether the lesson continues after it; the whole new range is then scrolled into view
 *   elsewhere
 */
export function useScrollIntoView(count, isLast) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(count);
  useLayoutEffect(() => {
    if (before.current !== count && !isLast && place.current) follow(place.current, place.current);
    before.current = count;
  }, [count]);
  return place;
}
