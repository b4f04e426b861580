// The size of an element as state: for what is laid out by numbers.

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";

/**
 * [ref, {width, height}] of the element that takes the ref, in CSS pixels; 0 × 0 before it is there.
 *
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
