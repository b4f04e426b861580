// Marks of events on a track.

/** @import {Palette} from "../../kit/colour.js" */

/** @typedef {(c: CanvasRenderingContext2D, palette: Palette, x: number, y: number) => void} Shape */

/**
 * Paint the mark of an event of a sequence in a record.
 * @param {CanvasRenderingContext2D} c @param {Palette} palette @param {string} mark
 * @param {number} x @param {number} y @param {number} row
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
  load: (c, palette, x, y) =>
    polygon(c, palette.v, palette.paper, [
      [x - 4, y + 4],
      [x, y - 4],
      [x + 4, y + 4],
    ]),
  arrive: (c, palette, x, y) =>
    polygon(c, palette.v, palette.paper, [
      [x - 4, y - 4],
      [x + 4, y],
      [x - 4, y + 4],
    ]),
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

/** @param {CanvasRenderingContext2D} c @param {string} fill @param {string} edge @param {[number, number][]} points */
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
