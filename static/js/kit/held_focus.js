// Buttons that disappear when they are pressed: the keyboard focus stays near them instead of at the top of the page.

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";

/**
 * A ref for the box around buttons, some of which share a place: the one that is there is `data-shown`. When the
 * focused one is hidden or disabled by a change of `now`, the focus goes to the one that came, else to `otherwise`, a
 * selector in the box.
 *
 * @param {unknown} now
 * @param {string | null} [otherwise]
 */
export function useHeldFocus(now, otherwise = null) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const at = document.activeElement;
  const held = at instanceof HTMLElement && box.current?.contains(at) ? at : null;
  useLayoutEffect(() => {
    if (!held || (!("disabled" in held && held.disabled) && held.dataset.shown !== "false")) return;
    if (!box.current) return;
    const came =
      box.current.querySelector('[data-shown="true"]:not(:disabled)') ??
      (otherwise ? box.current.querySelector(otherwise) : null);
    if (came instanceof HTMLElement) came.focus({ preventScroll: true });
  }, [now]);
  return box;
}
