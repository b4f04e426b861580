// Virtual list: only visible rows are in the document. Rows have equal height, and one of them is the Tab stop,
// `[data-row="7"]`.

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";

const MARGIN = 4; // rows beyond the edges, so that scrolling shows no gap

/**
 * @typedef {object} LongList
 * @property {number} first row in the document
 * @property {number} last exclusive
 * @property {number} stop row that is the Tab stop
 * @property {(row: number) => void} goTo scroll a row into view and focus it
 * @property {(event: KeyboardEvent) => void} move handles arrow keys, Page Up and Down, Home and End
 * @property {() => void} scrolled handles scroll events of the box
 * @property {() => void} toTop
 */

/**
 * @param {{box: {current: HTMLElement | null}, height: number, count: number, high: number, head?: number}} list
 * scrolling element and its height in px; number of rows and height of each in px; `head`: px at its top covered by
 * a sticky header
 * @returns {LongList}
 */
export function useLongList({ box, height, count, high, head = 0 }) {
  const [top, setTop] = useState(0); // first visible row
  const [cursor, setCursor] = useState(0); // row with the keyboard cursor
  const wantsFocus = useRef(false);
  const page = Math.max(1, Math.floor((height - head) / high));
  const first = Math.max(0, Math.min(top - MARGIN, count - page - 2 * MARGIN));
  const last = Math.min(count, top + page + MARGIN + 1);
  const stop = Math.max(first, Math.min(cursor, last - 1));
  const scrolled = () => setTop(Math.floor((box.current?.scrollTop ?? 0) / high));

  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    /** @type {HTMLElement | null | undefined} */
    const row = box.current?.querySelector(`[data-row="${cursor}"]`);
    if (!row) return; // not in the document before the next render
    wantsFocus.current = false;
    row.focus({ preventScroll: true });
  });

  /** @param {number} row */
  const goTo = (row) => {
    const to = Math.max(0, Math.min(row, count - 1));
    const scroller = box.current;
    wantsFocus.current = true;
    setCursor(to);
    if (!scroller) return;
    const above = to * high;
    const visibleHeight = scroller.clientHeight - head;
    if (above < scroller.scrollTop) scroller.scrollTop = above;
    else if (above + high > scroller.scrollTop + visibleHeight) scroller.scrollTop = above + high - visibleHeight;
    scrolled();
  };
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const targets = {
      ArrowUp: stop - 1,
      ArrowDown: stop + 1,
      PageUp: stop - page,
      PageDown: stop + page,
      Home: 0,
      End: count - 1,
    };
    const to = /** @type {Record<string, number>} */ (targets)[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    goTo(to);
  };
  const toTop = () => {
    if (box.current) box.current.scrollTop = 0;
    setTop(0);
    setCursor(0);
  };
  return { first, last, stop, goTo, move, scrolled, toTop };
}
