// Painting of all layers and heads at once: for each, a small picture of its newest rows.

import { computed } from "../../../vendor/signals/signals.js";
import { canFetch, pooled, rowOf } from "../../core/attention.js";
import { contextOf, prepare } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { requestLayer } from "../../net/commands.js";
import { settings } from "../../state/settings.js";
import { phase } from "../../state/stage_playhead.js";
import { sequenceView } from "../../state/store.js";
import { sources } from "./matrix_image.js";
import { lookupTable } from "./rows.js";

/** @import {Children} from "../../kit/html.js" */
/** @import {View} from "../../state/store.js" */
/** @import {HeadsLayout} from "./heads_geometry.js" */

/** @typedef {{record: number, seq_id: number, position: number}} KeyOrigin */

/** Whether the shown sub-step has attended the current row. */
export const attended = computed(() => phase("attend") > 0);

const ROWS = 32; // newest queries shown in a small matrix
const BINS = 64; // maximum number of key bins

const MAX_FETCHES = 64;
const MAX_LINES = 512; // cached rows, each with all layers and heads

/**
 * Cache of painted rows by source: for each head, a byte per key bin with its share of the row's largest weight, as in
 * a line of `RowPyramid`. Rows never change once computed.
 * @type {Map<string, (Uint8Array | undefined)[]>}
 */
const lines = new Map();

/** @type {{canvas: HTMLCanvasElement, lookup: Uint32Array, theme: number} | null} */
let tile = null;

/**
 * Return the cached lines of a source's row, by layer and head.
 * @param {View} now @param {KeyOrigin} source @param {number} stretch
 */
function linesOf(now, source, stretch) {
  const key = `${now.log.id}/${source.record}/${source.seq_id}/${source.position}/${stretch}`;
  let known = lines.get(key);
  if (!known) lines.set(key, (known = []));
  if (lines.size > MAX_LINES) lines.delete(lines.keys().next().value ?? "");
  return known;
}

/**
 * Return the line of one head, or null if the row is not loaded.
 * @param {View} now @param {KeyOrigin} source @param {number} l
 * @param {number} h @param {number} stretch
 */
function lineOf(now, source, l, h, stretch) {
  const row = rowOf(now.log, source, l, h);
  if (!row) return null;
  const numKeys = Math.max(source.position + 1, row.keyStart + row.weights.length); // non-causal rows see later keys
  const shares = pooled(row, stretch, Math.ceil(numKeys / stretch));
  return Uint8Array.from(shares, (share, bin) =>
    bin * stretch <= source.position || share > 0 ? 1 + Math.round(254 * (row.max > 0 ? share / row.max : 0)) : 0,
  );
}

/** @type {(canvas: HTMLCanvasElement | null, size: import("../../kit/canvas.js").Size, layout: HeadsLayout) => void} */
export function paint(canvas, { width, height }, layout) {
  if (!canvas) return;
  const c = prepare(canvas, width, height);
  const now = sequenceView.value;
  if (!now?.numFilled) return;
  const palette = colours();
  const square = settings.overview.value === "matrix";
  const last = now.entry && !attended.value ? now.entry.start : now.numFilled; // rows shown
  const first = square ? Math.max(0, last - ROWS) : Math.max(0, last - 1);
  const stretch = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, last) / BINS)));
  const bins = Math.max(1, Math.ceil(last / stretch));
  c.imageSmoothingEnabled = false;
  for (const cells of layout.lines) {
    const picture = last > 0 ? pictureOf(c, now, cells, { first, last, stretch, bins }) : null;
    cells.forEach(({ layer: l, head: h, x, y }, place) => {
      c.fillStyle = palette["line-2"];
      c.globalAlpha = 0.45;
      c.fillRect(x, y, layout.cellWidth, layout.cellHeight);
      c.globalAlpha = 1;
      const rows = last - first;
      if (picture) c.drawImage(picture, 0, place * rows, bins, rows, x, y, layout.cellWidth, layout.cellHeight);
      if (l === now.layer && h === now.head) {
        c.strokeStyle = palette.q;
        c.lineWidth = 2;
        c.strokeRect(x - 1, y - 1, layout.cellWidth + 2, layout.cellHeight + 2);
      }
    });
  }
  fetchMissing(now, [...new Set(layout.lines.flat().map((cell) => cell.layer))], first, last);
}

/**
 * Paint the pictures of a line of cells into one image, stacked vertically, so that it is uploaded once.
 * @param {CanvasRenderingContext2D} c @param {View} now @param {import("./heads_geometry.js").Cell[]} cells
 * @param {{first: number, last: number, stretch: number, bins: number}} shown
 */
function pictureOf(c, now, cells, { first, last, stretch, bins }) {
  if (tile?.theme !== themeVersion.peek())
    tile = {
      canvas: tile?.canvas ?? document.createElement("canvas"),
      lookup: lookupTable(),
      theme: themeVersion.peek(),
    };
  const { canvas, lookup } = tile;
  const rows = last - first;
  const image = c.createImageData(bins, rows * cells.length);
  const pixels = new Uint32Array(image.data.buffer);
  for (let query = first; query < last; query++) {
    const source = sources.peek()[query];
    if (!source) continue;
    const known = linesOf(now, source, stretch);
    cells.forEach(({ layer: l, head: h }, place) => {
      const index = l * now.log.header.model.num_heads + h;
      const line = known[index] ?? lineOf(now, source, l, h, stretch);
      if (!line) return;
      known[index] = line;
      const begin = (place * rows + query - first) * bins;
      for (let bin = 0; bin < line.length && bin < bins; bin++) pixels[begin + bin] = lookup[line[bin]];
    });
  }
  canvas.width = image.width; // also clears it
  canvas.height = image.height;
  contextOf(canvas).putImageData(image, 0, 0);
  return canvas;
}

/**
 * Fetch layers that were not sent with their records, starting with the layers of the newest row.
 * @param {View} now @param {number[]} layers @param {number} first
 * @param {number} last
 */
function fetchMissing(now, layers, first, last) {
  let numFetched = 0;
  for (let query = last - 1; query >= first && numFetched < MAX_FETCHES; query--)
    for (const l of layers) {
      const source = sources.peek()[query];
      if (source && canFetch(now.log, source, l) && numFetched++ < MAX_FETCHES) requestLayer(source.record, l);
    }
}
