// Height of the class's bar at the bottom of the page; other elements at the window's lower edge are placed above it.

import { useCallback } from "../../../vendor/preact/hooks.js";

const NAME = "--class-height"; // custom property of the root element, in CSS pixels, for style sheets

/** Return a `ref` callback that publishes the element's height as the bar's height while it is mounted. */
export function useBarHeight() {
  return useCallback(
    (() => {
      const root = document.documentElement;
      const sizes = new ResizeObserver(([{ target }]) =>
        root.style.setProperty(NAME, `${target.getBoundingClientRect().height}px`),
      );
      return (/** @type {Element | null} */ element) => {
        sizes.disconnect();
        root.style.removeProperty(NAME);
        if (element) sizes.observe(element, { box: "border-box" });
      };
    })(),
    [],
  );
}
