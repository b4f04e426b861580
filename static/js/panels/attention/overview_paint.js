// Painting every layer and head at once: a small picture each, of the newest rows.

import { computed } from "../../../vendor/signals/signals.js";
import { canFetch, pooled, rowOf } from "../../core/attention.js";
import { contextOf, prepare } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { wantLayer } from "../../net/commands.js";
import { settings } from "../../state/settings.js";
import { phase } from "../../state/stage_moment.js";
import { sequenceView } from "../../state/store.js";
import { sources } from "./matrix_image.js";
import { lookupTable } from "./rows.js";

/**
 * @typedef {import("./heads_geometry.js").HeadsLayout} HeadsLayout
 * @typedef {import("../../state/store.js").View} View
 * @typedef {import("../../kit/html.js").Children} Children
 * @typedef {{record: number, seq_id: number, position: number}} Source
 */

/** Whether the row in flight has been attended yet: it may be shown as far as an earlier sub-step. */
export const attended = computed(() => phase("attend") > 0);

const ROWS = 32; // newest queries in a small matrix
const BINS = 64; // stretches of keys at most

const FETCHED_AT_ONCE = 64;
const LINES = 1 << 14; // pooled rows kept

/** @type {Map<string, Float32Array>} a pooled row never changes */
const lines = new Map();

/** @type {{canvas: HTMLCanvasElement, lookup: number[][], theme: number} | null} */
let tile = null;

/**
 * The row of a source, pooled and as shares of its largest weight; null when it is not here.
 *
 * @param {View} now
 * @param {Source} source
 * @param {number} l
 * @param {number} h
 * @param {number} width
 * @param {number} bins
 */
function lineOf(now, source, l, h, width, bins) {
  const key = `${now.log.id}/${source.record}/${source.seq_id}/${source.position}/${l}/${h}/${width}`;
  const known = lines.get(key);
  if (known && known.length >= bins) return known;
  const row = rowOf(now.log, source, l, h);
  if (!row) return null;
  const made = pooled(row, width, bins).map((weight) => weight / (row.max || 1));
  lines.set(key, made);
  if (lines.size > LINES) lines.delete(lines.keys().next().value ?? "");
  return made;
}

/**
 * @param {HTMLCanvasElement | null} canvas
 * @param {import("../../kit/canvas.js").Size} size
 * @param {HeadsLayout} at
 */
export function paint(canvas, { width, height }, at) {
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
  if (tile?.theme !== themeVersion.peek())
    tile = {
      canvas: tile?.canvas ?? document.createElement("canvas"),
      lookup: lookupTable(),
      theme: themeVersion.peek(),
    };
  c.imageSmoothingEnabled = false;
  for (const { layer: l, head: h, x, y } of at.lines.flat()) {
    c.fillStyle = palette["line-2"];
    c.globalAlpha = 0.45;
    c.fillRect(x, y, at.across, at.down);
    c.globalAlpha = 1;
    if (last > 0) paintCell(c, now, { l, h, first, last, stretch, bins }, x, y, at);
    if (l === now.layer && h === now.head) {
      c.strokeStyle = palette.q;
      c.lineWidth = 2;
      c.strokeRect(x - 1, y - 1, at.across + 2, at.down + 2);
    }
  }
  fetchMissing(now, [...new Set(at.lines.flat().map((cell) => cell.layer))], first, last);
}

/**
 * @param {CanvasRenderingContext2D} c
 * @param {View} now
 * @param {{l: number, h: number, first: number, last: number, stretch: number, bins: number}} cell
 * @param {number} x
 * @param {number} y
 * @param {HeadsLayout} at
 */
function paintCell(c, now, { l, h, first, last, stretch, bins }, x, y, at) {
  if (!tile) return;
  const { canvas, lookup } = tile;
  canvas.width = bins; // also clears it
  canvas.height = last - first;
  const context = contextOf(canvas);
  const image = context.createImageData(bins, last - first);
  for (let query = first; query < last; query++) {
    const source = sources.peek()[query];
    const line = source && lineOf(now, source, l, h, stretch, bins);
    if (!line) continue;
    for (let bin = 0; bin < bins; bin++)
      if (bin * stretch <= query || line[bin] > 0)
        image.data.set(lookup[1 + Math.round(254 * line[bin])], 4 * ((query - first) * bins + bin));
  }
  context.putImageData(image, 0, 0);
  c.drawImage(canvas, 0, 0, bins, last - first, x, y, at.across, at.down);
}

/**
 * Ask for layers that did not travel with their records: the newest row's first.
 *
 * @param {View} now
 * @param {number[]} layers
 * @param {number} first
 * @param {number} last
 */
function fetchMissing(now, layers, first, last) {
  let asked = 0;
  for (let query = last - 1; query >= first && asked < FETCHED_AT_ONCE; query--)
    for (const l of layers) {
      const source = sources.peek()[query];
      if (source && canFetch(now.log, source, l) && asked++ < FETCHED_AT_ONCE) wantLayer(source.record, l);
    }
}
