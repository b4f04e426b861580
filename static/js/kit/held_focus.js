// Buttons that go when they are pressed: whoever used the keyboard goes on where they were, not at the top of the page.

import { useLayoutEffect, useRef } from "../../vendor/preact/hooks.js";

/**
 * A ref for the box around buttons, some of which share a place: the one that is there is `data-shown`. When the
 * focused one is hidden or disabled by a change of `now`, the focus goes to the one that came, else to `otherwise`, a
 * selector in the box.
 */
export function useHeldFocus(now, otherwise = null) {
  const box = useRef(null);
  const held = box.current?.contains(document.activeElement) ? document.activeElement : null;
  useLayoutEffect(() => {
    if (!held || (!held.disabled && held.dataset.shown !== "false")) return;
    const came =
      box.current.querySelector('[data-shown="true"]:not(:disabled)') ??
      (otherwise && box.current.querySelector(otherwise));
    came?.focus({ preventScroll: true });
  }, [now]);
  return box;
}
