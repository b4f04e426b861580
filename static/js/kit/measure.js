// Measurements for computed layouts: of an element, of the window, of a pointer inside an element, and of a text
// that must fit into a box.

import { useLayoutEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { labelWidth } from "./canvas.js";

/** @param {{clientX: number, clientY: number}} event @param {HTMLElement} element */
export function pointIn(event, element) {
  const box = element.getBoundingClientRect();
  const scale = box.width ? element.offsetWidth / box.width : 1;
  return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
}

/** Return whether the window shows one region at a time (css/layout.css). */
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

const MIN_SIZE = 9; // px; smaller letters are not legible
const MIN_SCALING = 0.8; // minimum horizontal scaling of a text on a canvas

/**
 * Return the size in px at which the complete `text` fits into `width`, at most `largest`; null if that is not legible.
 * A truncated word could read as another word.
 * @param {string} text
 * @param {number} width
 * @param {number} largest
 */
export function fittedSize(text, width, largest) {
  const size = Math.min(largest, sizeIn(text, width));
  return size >= MIN_SIZE ? size : null;
}

/**
 * Return `fittedSize` for a canvas, whose `fillText` gets the width too and may condense the letters.
 * @param {string} text
 * @param {number} width
 * @param {number} largest
 */
export function fittedOnCanvas(text, width, largest) {
  return fittedSize(text, width, largest) ?? (sizeIn(text, width / MIN_SCALING) >= MIN_SIZE ? MIN_SIZE : null);
}

/** @param {string} text @param {number} width */
const sizeIn = (text, width) => Math.floor((width / labelWidth(text)) * 17 * 2) / 2;
