// Texts in boxes that are given: whole, as large as fits, or not at all. Half a word would be another word.

import { labelWidth } from "./canvas.js";

const LEGIBLE = 9; // px; smaller letters are a texture
const NARROWED = 0.8; // a canvas may draw letters so much narrower, rather than none

/**
 * The size in px at which the whole of `text` fits into `width`, at most `largest`; null: not legibly.
 *
 * @param {string} text
 * @param {number} width
 * @param {number} largest
 */
export function fittedSize(text, width, largest) {
  const size = Math.min(largest, sizeIn(text, width));
  return size >= LEGIBLE ? size : null;
}

/**
 * The same on a canvas, whose `fillText` is given the width, too: it draws letters a little narrower where that helps.
 *
 * @param {string} text
 * @param {number} width
 * @param {number} largest
 */
export function fittedOnCanvas(text, width, largest) {
  return fittedSize(text, width, largest) ?? (sizeIn(text, width / NARROWED) >= LEGIBLE ? LEGIBLE : null);
}

/** @param {string} text @param {number} width */
const sizeIn = (text, width) => Math.floor((width / labelWidth(text)) * 17 * 2) / 2;
