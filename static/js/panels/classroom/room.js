// The room that the class's bar takes below the page: what else keeps to the window's lower edge stands above it.

import { useCallback } from "../../../vendor/preact/hooks.js";

const NAME = "--class-height"; // of the root, in CSS pixels: style sheets read it

/** What an element takes as its `ref`, whose height is the bar's for as long as it is there. */
export function useRoom() {
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
