// Keyboard focus: groups that form a single Tab stop, and a focus that moves on when its button disappears.

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";

/**
 * Return a ref for the box around buttons that replace each other; the visible one has `data-shown`. If the focused one
 * is hidden, disabled or removed by a change of `now`, the focus moves to its replacement, else to `otherwise`, a
 * selector in the box.
 * @param {unknown} now
 * @param {string | null} [otherwise]
 */
export function useHeldFocus(now, otherwise = null) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const at = document.activeElement;
  const held = at instanceof HTMLElement && box.current?.contains(at) ? at : null;
  useLayoutEffect(() => {
    const isUsable = held?.isConnected && !held.matches(":disabled") && held.dataset.shown !== "false";
    if (!held || isUsable || !box.current) return;
    const came =
      box.current.querySelector('[data-shown="true"]:not(:disabled)') ??
      (otherwise ? box.current.querySelector(otherwise) : null);
    if (came instanceof HTMLElement) came.focus({ preventScroll: true });
  }, [now]);
  return box;
}

/**
 * Give the focus back when what was opened is closed, if it is nowhere then: to the element that had it, to the one
 * that has its id by now, or to the one with the id `otherwise`.
 * @param {boolean} isOpen
 * @param {string} [otherwise]
 */
export function useReturnedFocus(isOpen, otherwise = "") {
  const before = useRef(/** @type {Element | null} */ (null));
  const was = useRef(false);
  if (isOpen && !was.current) before.current = document.activeElement; // the next render may remove it
  was.current = isOpen;
  useLayoutEffect(() => (isOpen ? () => focusAgain(before.current, otherwise) : undefined), [isOpen]);
}

/**
 * Last focused element of each view that another one has replaced.
 * @type {Map<string, Element | null>}
 */
const left = new Map();

/**
 * The same between views that replace each other: each view regains the focus at the element that had it.
 * @param {string} view
 */
export function useFocusOfViews(view) {
  const before = useRef(view);
  if (before.current !== view) left.set(before.current, document.activeElement);
  before.current = view;
  useLayoutEffect(() => focusAgain(left.get(view) ?? null), [view]);
}

/**
 * Give the focus to the element with the id `first` when `view` replaces another view for the first time.
 * @param {string} view
 * @param {string} first
 */
export function useFirstFocus(view, first) {
  useLayoutEffect(() => void (left.size && !left.has(view) && focusAgain(null, first)), []);
}

/** @param {Element | null} element @param {string} [otherwise] */
function focusAgain(element, otherwise = "") {
  queueMicrotask(() => {
    if (document.activeElement !== document.body) return;
    const had = element === document.body ? null : element;
    const found = had?.isConnected ? had : document.getElementById(had?.id ?? "");
    const to = found?.matches(":disabled") ? null : found;
    const next = to ?? document.getElementById(otherwise);
    if (!(next instanceof HTMLElement)) return;
    next.focus({ preventScroll: true }); // views set their own scroll position
    if (next.matches(":focus-visible")) next.scrollIntoView({ block: "nearest" }); // by keyboard
  });
}

/** @type {Record<string, (at: number, last: number) => number>} */
const MOVES = {
  ArrowLeft: (at) => at - 1,
  ArrowUp: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  ArrowDown: (at) => at + 1,
  Home: () => 0,
  End: (_, last) => last,
};

/**
 * Make the elements of a selector a single Tab stop, at the last focused one, else the first. They are looked up on
 * each key press.
 * @param {string} selector
 */
export function rove(selector) {
  /** @type {Element | null} */
  let last = null;
  const all = () =>
    /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]).filter((one) => one.checkVisibility());
  const offer = () => {
    const found = all();
    const stop = found.find((one) => one === last) ?? found[0];
    for (const one of found) one.tabIndex = one === stop ? 0 : -1;
  };
  document.addEventListener(
    "keydown",
    (event) => {
      const target = /** @type {Element} */ (event.target);
      const at = target.closest?.(selector) ?? null;
      if (at) last = at;
      if (event.key === "Tab") return offer();
      if (!at || !(event.key in MOVES) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const found = all();
      const to = MOVES[event.key](found.indexOf(/** @type {HTMLElement} */ (at)), found.length - 1);
      found[Math.max(0, Math.min(found.length - 1, to))].focus();
    },
    true,
  );
}

/**
 * Return a handler that moves the focus among a box's elements of a selector with ← and →.
 * @param {string} selector
 * @returns {(event: KeyboardEvent & {currentTarget: Element}) => void}
 */
export const walkAmong = (selector) => (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  const all = /** @type {(HTMLElement | SVGElement)[]} */ ([...event.currentTarget.querySelectorAll(selector)]);
  all[all.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + by]?.focus();
};

/** @type {Record<string, "previousElementSibling" | "nextElementSibling">} */
const NEIGHBOUR = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" };

/** Move the focus from the focused button to its neighbour. @param {KeyboardEvent} event */
export function walkRow(event) {
  const next = NEIGHBOUR[event.key];
  if (!next) return;
  event.preventDefault();
  /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.currentTarget)[next])?.focus();
}
