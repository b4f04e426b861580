// Texts in boxes of fixed size: complete and as large as fits, or omitted. A truncated word could read as another word.

import { labelWidth } from "./canvas.js";

const LEGIBLE = 9; // px; smaller letters are not legible
const NARROWED = 0.8; // horizontal scaling that a canvas may apply before a text is omitted

/**
 * Return the size in px at which all of `text` fits into `width`, at most `largest`; null if that is not legible.
 * @param {string} text
 * @param {number} width
 * @param {number} largest
 */
export function fittedSize(text, width, largest) {
  const size = Math.min(largest, sizeIn(text, width));
  return size >= LEGIBLE ? size : null;
}

/**
 * Same for a canvas whose `fillText` also gets the width and may condense the letters a little.
 * @param {string} text
 * @param {number} width
 * @param {number} largest
 */
export function fittedOnCanvas(text, width, largest) {
  return fittedSize(text, width, largest) ?? (sizeIn(text, width / NARROWED) >= LEGIBLE ? LEGIBLE : null);
}

/** @param {string} text @param {number} width */
const sizeIn = (text, width) => Math.floor((width / labelWidth(text)) * 17 * 2) / 2;
