// A picture with its caption, as an SVG or PNG file.

import { contextOf, sharpen } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { drawingOf } from "./picture.js";
import { paint } from "./svg.js";
import { escaped, wrap } from "./text.js";

const MARGIN = 16;
const LINE = 20;
const SCALE = 2; // PNG pixels per CSS pixel

/** @typedef {{title: string, facts: string, sentence: string}} Caption */

/** Compose picture and caption into a self-contained SVG. @param {Element} element @param {Caption} caption */
export function sheetOf(element, caption) {
  const drawing = drawingOf(element);
  const style = getComputedStyle(document.body);
  const palette = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const colour = (name) => palette.getPropertyValue(`--${name}`).trim();
  const width = Math.ceil(Math.max(drawing.width, 320) + 2 * MARGIN);
  const font = style.fontFamily;
  const lines = [
    { text: caption.title, size: 14, weight: 600, colour: colour("ink") },
    { text: caption.facts, size: 12, weight: 400, colour: colour("ink-3") },
    ...wrap(caption.sentence, width - 2 * MARGIN, `14px ${font}`).map((text) => ({
      text,
      size: 14,
      weight: 400,
      colour: colour("ink"),
    })),
  ].filter((line) => line.text);
  const top = MARGIN + drawing.height + MARGIN;
  const height = Math.ceil(top + lines.length * LINE + MARGIN / 2);
  const texts = lines.map((line, i) => {
    const place = `x="${MARGIN}" y="${top + i * LINE + 14}"`;
    const font = `font-size="${line.size}" font-weight="${line.weight}"`;
    return `<text ${place} ${font} ${paint("fill", line.colour)}>${escaped(line.text)}</text>`;
  });
  const box = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
  const svg = [
    `<svg xmlns="http://www.w3.org/2000/svg" ${box} font-family="${escaped(font)}">`,
    `<title>${escaped(`${caption.title} · ${caption.facts}`)}</title>`,
    `<rect width="100%" height="100%" ${paint("fill", style.backgroundColor)}/>`,
    `<g transform="translate(${MARGIN} ${MARGIN})">${drawing.body}</g>`,
    ...texts,
    "</svg>",
  ].join("");
  return { svg, width, height };
}

/**
 * Rasterize the sheet to a PNG at `SCALE` pixels per CSS pixel.
 * @param {{svg: string, width: number, height: number}} sheet
 * @returns {Promise<Blob>}
 */
export async function pngOf({ svg, width, height }) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image(width * SCALE, height * SCALE);
    image.src = address;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
    contextOf(canvas).drawImage(image, 0, 0, canvas.width, canvas.height);
    /** @type {Blob | null} */
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("the picture is too large for this browser");
    return blob;
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Download `blob` as a file. @param {Blob} blob @param {string} name of the file */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement("a"), { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

const repaint = async () => {
  themeVersion.value += 1; // all painters depend on it
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
};

/**
 * Run `work` while every canvas is painted at export resolution; the screen resolution is restored afterwards.
 * @template T
 * @param {() => Promise<T>} work
 */
export async function atExportResolution(work) {
  sharpen(SCALE);
  try {
    await repaint();
    return await work();
  } finally {
    sharpen(1);
    await repaint();
  }
}
