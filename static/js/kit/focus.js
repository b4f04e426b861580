// Keyboard focus: groups that form a single Tab stop, and replacement of a focus whose element disappears.

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";

/**
 * Return a ref for the box around buttons that replace each other; the visible one has `data-shown`. If the focused one
 * is hidden, disabled or removed by a change of `now`, the focus moves to its replacement, else to `fallback`, a
 * selector in the box.
 * @param {unknown} now
 * @param {string | null} [fallback]
 */
export function useHeldFocus(now, fallback = null) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const at = document.activeElement;
  const held = at instanceof HTMLElement && box.current?.contains(at) ? at : null;
  useLayoutEffect(() => {
    const isUsable = held?.isConnected && !held.matches(":disabled") && held.dataset.shown !== "false";
    if (!held || isUsable || !box.current) return;
    const replacement =
      box.current.querySelector('[data-shown="true"]:not(:disabled)') ??
      (fallback ? box.current.querySelector(fallback) : null);
    if (replacement instanceof HTMLElement) replacement.focus({ preventScroll: true });
  }, [now]);
  return box;
}

/**
 * Return the focus when an opened element closes and no element has the focus: to the element that had it before, else
 * to the one with the same id, else to the one with the id `fallback`.
 * @param {boolean} isOpen
 * @param {string} [fallback]
 */
export function useReturnedFocus(isOpen, fallback = "") {
  const before = useRef(/** @type {Element | null} */ (null));
  const wasOpen = useRef(false);
  if (isOpen && !wasOpen.current) before.current = document.activeElement; // the next render may remove it
  wasOpen.current = isOpen;
  useLayoutEffect(() => (isOpen ? () => restoreFocus(before.current, fallback) : undefined), [isOpen]);
}

/** Last focused element of each view that was replaced by another. @type {Map<string, Element | null>} */
const lastFocused = new Map();

/** Restore the focus of a view that is shown again, at the element that had it last. @param {string} view */
export function useFocusOfViews(view) {
  const before = useRef(view);
  if (before.current !== view) lastFocused.set(before.current, document.activeElement);
  before.current = view;
  useLayoutEffect(() => restoreFocus(lastFocused.get(view) ?? null), [view]);
}

/**
 * Focus the element with the id `first` when `view` replaces another view for the first time.
 * @param {string} view
 * @param {string} first
 */
export function useFirstFocus(view, first) {
  useLayoutEffect(() => void (lastFocused.size && !lastFocused.has(view) && restoreFocus(null, first)), []);
}

/** @param {Element | null} element @param {string} [fallback] */
function restoreFocus(element, fallback = "") {
  queueMicrotask(() => {
    if (document.activeElement !== document.body) return;
    const had = element === document.body ? null : element;
    const found = had?.isConnected ? had : document.getElementById(had?.id ?? "");
    const to = found?.matches(":disabled") ? null : found;
    const next = to ?? document.getElementById(fallback);
    if (!(next instanceof HTMLElement)) return;
    next.focus({ preventScroll: true }); // views set their own scroll position
    if (next.matches(":focus-visible")) next.scrollIntoView({ block: "nearest" }); // the focus came by keyboard
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
 * Make the elements of a selector a single Tab stop: the last focused one, else the first. They are looked up on
 * each key press.
 * @param {string} selector
 */
export function rove(selector) {
  /** @type {Element | null} */
  let last = null;
  const all = () =>
    /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]).filter((one) => one.checkVisibility());
  const updateTabStop = () => {
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
      if (event.key === "Tab") return updateTabStop();
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
export const moveFocusAmong = (selector) => (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  const all = /** @type {(HTMLElement | SVGElement)[]} */ ([...event.currentTarget.querySelectorAll(selector)]);
  all[all.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + by]?.focus();
};

/** @type {Record<string, "previousElementSibling" | "nextElementSibling">} */
const NEIGHBOUR = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" };

/** Move the focus from the focused button to its neighbour. @param {KeyboardEvent} event */
export function moveFocusInRow(event) {
  const next = NEIGHBOUR[event.key];
  if (!next) return;
  event.preventDefault();
  /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.currentTarget)[next])?.focus();
}
