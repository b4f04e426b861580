// What is new in the lesson comes into sight: its beginning first, and the rest of it where there is room.

import { useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { still } from "../../state/moment.js";

const EDGE = 20; // px between what is new and the edges of the lesson

/**
 * Bring what stands between two elements into sight, and the keyboard to it when what it was on is gone.
 *
 * @param {Element} first
 * @param {Element} last
 * @param {boolean} [isMoved] whether one sees the way there
 */
export function follow(first, last, isMoved = true) {
  const column = first.closest(".lesson");
  if (!column) return;
  const head = column.querySelector(".lesson-head");
  const isStuck = head && getComputedStyle(head).position === "sticky";
  const sight = column.getBoundingClientRect();
  const top = sight.top + (isStuck ? head.getBoundingClientRect().height : 0) + EDGE;
  const over = last.getBoundingClientRect().bottom - (sight.bottom - EDGE); // px of it below the edge
  const by = Math.min(Math.max(0, over), first.getBoundingClientRect().top - top);
  if (Math.abs(by) > 1) column.scrollBy({ top: by, behavior: isMoved && !still.peek() ? "smooth" : "instant" });
  if (document.activeElement === document.body) /** @type {HTMLElement} */ (first).focus({ preventScroll: true });
}

/**
 * For what is said anew each time `count` grows: where it is put, so that it comes into sight.
 *
 * @param {number} count
 * @param {boolean} isLast whether the lesson goes on with it: the whole of what comes is brought into sight then
 */
export function useNews(count, isLast) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(count);
  useLayoutEffect(() => {
    if (before.current !== count && !isLast && place.current) follow(place.current, place.current);
    before.current = count;
  }, [count]);
  return place;
}
