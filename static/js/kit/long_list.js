// A list of which only the rows in sight are in the document, however many there are: rows are equally high, and one of
// them is the stop of the Tab key, `[data-row="7"]`.

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";

const MORE = 4; // rows beyond the edges, so that scrolling shows no gap

/**
 * @typedef {object} LongList
 * @property {number} first row in the document
 * @property {number} last exclusive
 * @property {number} stop the row that the Tab key stops at
 * @property {(row: number) => void} goTo bring a row into sight and the focus to it
 * @property {(event: KeyboardEvent) => void} move arrows, pages, Home and End
 * @property {() => void} scrolled for the box
 * @property {() => void} toTop
 */

/**
 * @param {{box: {current: HTMLElement | null}, height: number, count: number, high: number, head?: number}} list the
 *   element that scrolls and its height, px; how many rows there are and how high each is, px; of that height, what
 *   stays above them
 * @returns {LongList}
 */
export function useLongList({ box, height, count, high, head = 0 }) {
  const [top, setTop] = useState(0); // the first row in sight
  const [cursor, setCursor] = useState(0); // the row that the keyboard is at
  const wantsFocus = useRef(false);
  const page = Math.max(1, Math.floor((height - head) / high));
  const first = Math.max(0, Math.min(top - MORE, count - page - 2 * MORE));
  const last = Math.min(count, top + page + MORE + 1);
  const stop = Math.max(first, Math.min(cursor, last - 1));
  const scrolled = () => setTop(Math.floor((box.current?.scrollTop ?? 0) / high));

  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    /** @type {HTMLElement | null | undefined} */
    const row = box.current?.querySelector(`[data-row="${cursor}"]`);
    if (!row) return; // it comes with the next drawing
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
    const room = scroller.clientHeight - head;
    if (above < scroller.scrollTop) scroller.scrollTop = above;
    else if (above + high > scroller.scrollTop + room) scroller.scrollTop = above + high - room;
    scrolled();
  };
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const ways = {
      ArrowUp: stop - 1,
      ArrowDown: stop + 1,
      PageUp: stop - page,
      PageDown: stop + page,
      Home: 0,
      End: count - 1,
    };
    const to = /** @type {Record<string, number>} */ (ways)[event.key];
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
