// Painting of tracks: runs of cells of one kind, in the same style in all views of a sequence over time.

import { sequencePattern, wastePattern } from "./texture.js";

/** @import {Palette} from "./colour.js" */

/** @typedef {{kind: string, tokens?: number | "", again?: number}} Run */

/**
 * Paint a run of cells of one kind; kinds differ in colour, height and texture.
 * @param {CanvasRenderingContext2D} c
 * @param {Palette} palette
 * @param {Run} run
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {{cell: number, row: number}} layout
 */
export function paintRun(c, palette, run, x, y, width, { cell, row }) {
  const [top, height] = [y + 2, row - 4];
  const middle = Math.round(y + row / 2);
  if (run.kind === "prefill") {
    c.fillStyle = palette.prompt;
    c.fillRect(x, top, width - gapOf(cell), height);
    if (run.again) {
      c.fillStyle = sequencePattern(c, 1, palette.paper, 0.75);
      c.fillRect(x, top, (width - gapOf(cell)) * (run.again / Number(run.tokens)), height);
    } else if (row >= 13 && c.measureText(String(run.tokens ?? "")).width <= width - 4) {
      c.fillStyle = palette.paper;
      c.textAlign = "center";
      c.fillText(String(run.tokens ?? ""), x + (width - 1) / 2, middle + 4);
    }
  } else if (run.kind === "decode") {
    c.fillStyle = palette.generated;
    for (let left = x; left < x + width - 0.5; left += cell)
      c.fillRect(left, middle - height * 0.3, cell - gapOf(cell), height * 0.6);
  } else if (run.kind === "idle") {
    c.fillStyle = palette["ink-3"];
    c.fillRect(x, middle - 0.5, width, 1);
  } else if (run.kind === "waiting") {
    framed(c, sequencePattern(c, 0, palette["ink-3"], 1), palette.line, x, top + 1, width - gapOf(cell), height - 2);
  } else if (run.kind === "receiving") {
    framed(c, sequencePattern(c, 7, palette.v, 0.9), palette.v, x, top + 1, width - gapOf(cell), height - 2);
  } else if (run.kind === "holding") {
    framed(c, sequencePattern(c, 1, palette["ink-3"], 0.8), palette["ink-3"], x, top + 3, width, height - 6);
  } else if (run.kind === "preempted") {
    framed(c, wastePattern(c, palette.fault), palette.fault, x, top, width, height);
  } else if (run.kind === "swapped") {
    framed(c, sequencePattern(c, 7, palette["ink-2"], 0.8), palette["ink-2"], x, top, width, height);
  }
}

/** @param {number} cell */
const gapOf = (cell) => (cell > 4 ? 1 : 0);

/**
 * @param {CanvasRenderingContext2D} c
 * @param {CanvasPattern} pattern
 * @param {string} colour
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function framed(c, pattern, colour, x, y, width, height) {
  c.fillStyle = pattern;
  c.fillRect(x, y, width, height);
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}
