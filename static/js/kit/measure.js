// Size hooks for layouts computed in numbers: of an element, of the window, and of a pointer inside an element.

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";

/** @param {{clientX: number, clientY: number}} event @param {HTMLElement} element */
export function pointIn(event, element) {
  const box = element.getBoundingClientRect();
  const scale = box.width ? element.offsetWidth / box.width : 1;
  return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
}

/** Return whether one region is shown at a time (css/layout.css). */
export const isPhone = () => innerWidth < 720;

/**
 * Return [ref, {width, height}] of the element that takes the ref, in CSS pixels; 0 × 0 before it is mounted.
 * @template {HTMLElement} E
 * @returns {[{current: E | null}, {width: number, height: number}]}
 */
export function useBox() {
  const ref = useRef(/** @type {E | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => {
      const found = { width: element.clientWidth, height: element.clientHeight };
      setSize((known) => (known.width === found.width && known.height === found.height ? known : found));
    };
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    measure();
    return () => sizes.disconnect();
  }, []);
  return [ref, size];
}
