// Text nodes as SVG text at the positions where the browser laid out their lines, and line breaking of captions.

import { contextOf } from "../../kit/canvas.js";
import { paint } from "./svg.js";

/** @type {Map<string, {ascent: number, descent: number}>} */
const metrics = new Map(); // by font
/** @type {CanvasRenderingContext2D | null} */
let context = null;

/** @type {Record<string, string>} */
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** @param {CSSStyleDeclaration} style */
const fontOf = (style) => `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;

/** @param {string} font */
function contextFor(font) {
  context ??= contextOf(document.createElement("canvas"));
  context.font = font;
  return context;
}

/** @param {string} text */
export const escaped = (text) => text.replace(/[&<>"]/g, (c) => ENTITIES[c]);

/**
 * Return the lines of a text node with their boxes in client pixels; [] if none of it is laid out.
 * @param {Text} node
 */
function linesOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = range.getClientRects();
  if (boxes.length === 0) return [];
  if (boxes.length === 1 && node.data === node.data.trim() && !/\s\s|\n/.test(node.data))
    return [{ text: node.data, box: boxes[0] }];
  /** @type {{text: string, left: number, right: number, top: number, height: number}[]} */
  const lines = [];
  let offset = 0;
  for (const character of node.data) {
    range.setStart(node, offset);
    range.setEnd(node, (offset += character.length));
    const box = range.getClientRects()[0];
    if (!box || box.width === 0) continue; // collapsed white space
    const line = lines.at(-1);
    if (line && Math.abs(line.top - box.top) < 2)
      Object.assign(line, { text: line.text + character, right: box.right });
    else if (character.trim())
      lines.push({ text: character, left: box.left, right: box.right, top: box.top, height: box.height });
  }
  return lines.map((line) => ({
    text: line.text.replace(/\s+$/, ""),
    box: { left: line.left, top: line.top, width: line.right - line.left, height: line.height },
  }));
}

/** @param {string} font */
function measureFont(font) {
  const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = contextFor(font).measureText("x");
  return { ascent, descent };
}

/**
 * Return SVG text elements for a text node, relative to `origin`. Each has a fixed width, in case another font is used.
 * @param {Text} node @param {CSSStyleDeclaration} style @param {DOMRect} origin
 */
export function textOf(node, style, origin) {
  if (parseFloat(style.fontSize) < 1) return "";
  const font = fontOf(style);
  const { ascent, descent } = metrics.get(font) ?? measureFont(font);
  metrics.set(font, { ascent, descent });
  return linesOf(node)
    .map(({ text, box }) => {
      const y = box.top - origin.top + (box.height - ascent - descent) / 2 + ascent;
      const words = style.textTransform === "uppercase" ? text.toUpperCase() : text;
      const length =
        words.length > 1 && box.width > 0
          ? ` textLength="${box.width.toFixed(2)}" lengthAdjust="spacingAndGlyphs"`
          : "";
      const place = `x="${(box.left - origin.left).toFixed(2)}" y="${y.toFixed(2)}"`;
      return `<text ${place}${length} ${fontAttributes(style)} ${paint("fill", style.color)}>${escaped(words)}</text>`;
    })
    .join("");
}

/** @param {CSSStyleDeclaration} style */
export function fontAttributes(style) {
  const parts = [`font-family="${escaped(style.fontFamily)}"`, `font-size="${style.fontSize}"`];
  if (style.fontWeight !== "400") parts.push(`font-weight="${style.fontWeight}"`);
  if (style.fontStyle !== "normal") parts.push(`font-style="${style.fontStyle}"`);
  return parts.join(" ");
}

/**
 * Break `text` into lines of at most `width` px in `font`: at spaces, and anywhere between Chinese characters.
 * @param {string} text @param {number} width @param {string} font
 */
export function wrap(text, width, font) {
  const context_ = contextFor(font);
  const lines = [];
  let line = "";
  for (const piece of text.match(/[\u3000-\u9fff\uff00-\uffef]|[^\s\u3000-\u9fff\uff00-\uffef]+\s*|\s+/g) ?? []) {
    if (line && context_.measureText((line + piece).trimEnd()).width > width) {
      lines.push(line.trimEnd());
      line = "";
    }
    line += piece;
  }
  return line.trim() ? [...lines, line.trimEnd()] : lines;
}
