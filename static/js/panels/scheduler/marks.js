// What a lane is made of: runs of cells of one kind, and the marks of what happened.

import { sequencePattern, wastePattern } from "../../kit/texture.js";

/**
 * @typedef {import("../../kit/colour.js").Palette} Palette
 * @typedef {(c: CanvasRenderingContext2D, palette: Palette, x: number, y: number) => void} Shape
 * @typedef {{kind: string, tokens?: number | "", again?: number}} Run
 */

/**
 * A run of cells of one kind: colour, height and texture each tell the kinds apart.
 *
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

/**
 * What happened to the sequence in a record, above its cell.
 *
 * @param {CanvasRenderingContext2D} c
 * @param {Palette} palette
 * @param {string} mark
 * @param {number} x
 * @param {number} y
 * @param {number} row
 * @param {boolean} [selected]
 */
export function paintMark(c, palette, mark, x, y, row, selected = false) {
  const middle = Math.round(y + row / 2);
  const shape = SHAPES[mark];
  c.lineWidth = 1.5;
  shape(c, palette, x, middle);
  if (!selected) return;
  c.strokeStyle = palette.focus;
  c.lineWidth = 2;
  c.beginPath();
  c.arc(x, middle, 7, 0, 2 * Math.PI);
  c.stroke();
}

/** @type {Record<string, Shape>} */
const SHAPES = {
  submit: (c, palette, x, y) =>
    polygon(c, palette.prompt, palette.paper, [
      [x - 3, y - 5],
      [x + 4, y],
      [x - 3, y + 5],
    ]),
  fork: (c, palette, x, y) =>
    polygon(c, palette.generated, palette.paper, [
      [x - 3, y - 5],
      [x + 4, y],
      [x - 3, y + 5],
    ]),
  preempt: (c, palette, x, y) =>
    polygon(c, palette.fault, palette.paper, [
      [x - 5, y - 4],
      [x + 5, y - 4],
      [x, y + 5],
    ]),
  finish: (c, palette, x, y) =>
    polygon(c, palette.ink, palette.paper, [
      [x - 3.5, y - 3.5],
      [x + 3.5, y - 3.5],
      [x + 3.5, y + 3.5],
      [x - 3.5, y + 3.5],
    ]),
  hit: (c, palette, x, y) => ring(c, palette, x, y),
  defer: (c, palette, x, y) => {
    c.fillStyle = palette["ink-2"];
    c.beginPath();
    c.arc(x, y, 2, 0, 2 * Math.PI);
    c.fill();
  },
  abort: (c, palette, x, y) => {
    for (const [colour, width] of /** @type {[string, number][]} */ ([
      [palette.paper, 4],
      [palette.fault, 2],
    ])) {
      c.strokeStyle = colour;
      c.lineWidth = width;
      c.beginPath();
      for (const side of [-1, 1]) {
        c.moveTo(x - 4 * side, y - 4);
        c.lineTo(x + 4 * side, y + 4);
      }
      c.stroke();
    }
  },
};

/**
 * @param {CanvasRenderingContext2D} c
 * @param {string} fill
 * @param {string} edge
 * @param {[number, number][]} points
 */
function polygon(c, fill, edge, points) {
  c.beginPath();
  points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
  c.closePath();
  c.fillStyle = fill;
  c.fill();
  c.strokeStyle = edge;
  c.lineWidth = 1;
  c.stroke();
}

/** @type {Shape} */
function ring(c, palette, x, y) {
  c.beginPath();
  c.arc(x, y, 3.5, 0, 2 * Math.PI);
  c.fillStyle = palette.paper;
  c.fill();
  c.strokeStyle = palette.generated;
  c.lineWidth = 2;
  c.stroke();
}
