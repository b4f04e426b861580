// Painting of the token row: a pure function of the stage, the geometry and the progress of the record's phases.

import { signal } from "../../../vendor/signals/signals.js";
import { storedStates } from "../../core/sequence_view.js";
import { probabilityText, t } from "../../i18n/words.js";
import { hairline, roundRect } from "../../kit/canvas.js";
import { alpha, colours, niceCeiling, sequentialAt } from "../../kit/colour.js";
import { settings } from "../../state/settings.js";
import { pointed } from "../../state/store.js";
import { columns, figureMiddle, readProgressAt, separateFigures } from "./geometry.js";
import { cellOf, KINDS, rowsOf } from "./token_row_columns.js";
import { images, paintNames, paintPlaceholder, paintVectors } from "./token_row_vectors.js";

/** @import {View} from "../../state/store.js" */
/** @import {Band, Columns} from "./geometry.js" */
/** @import {Kind} from "./token_row_columns.js" */

/** @type {import("../../../vendor/signals/signals.js").Signal<Partial<Record<Kind, number>>>} */
const ranges = signal({}); // largest magnitude of each row's scale, for its legend
/** @type {WeakMap<object, Set<number>>} by attention row: positions of its three largest weights */
const largestOf = new WeakMap();

const NUM_OUTLINES = 12; // columns on an empty stage
const MAX_OUTLINE = 46; // px of an outlined column

export const rangesOf = () => ranges.value;

/**
 * @typedef {{keyStart: number, weights: Float32Array, max: number}} Row of attention
 * @typedef {{
 *   now: View, layout: Columns, span: [number, number], offset: number, width: number, height: number,
 *   phases: import("../../state/playhead.js").Progress,
 * }} TokenRowView
 * @typedef {Pick<TokenRowView, "now" | "layout" | "phases"> & {
 *   c: CanvasRenderingContext2D, palette: import("../../kit/colour.js").Palette,
 *   first: number, last: number, left: number, right: number,
 * }} Scene
 */

/** Return the maximum of the attention axis, or null. @param {View | null} now */
export function legendOf(now) {
  return now?.attention ? niceCeiling(now.attention.max) : null;
}

/**
 * Paint the token row. `phases` is the progress of each phase, from state/playhead.js.
 * @param {CanvasRenderingContext2D} c @param {TokenRowView} row
 */
export function paintTokenRow(c, { now, layout, span, offset, width, height, phases }) {
  const scene = {
    c,
    palette: colours(),
    now,
    layout,
    first: span[0],
    last: span[1],
    left: offset,
    right: offset + width,
    phases,
  };
  const at = rowsOf(now, height);
  c.save();
  c.translate(-offset, 0);
  paintReads(scene, at);
  for (const kind of KINDS)
    if (at[kind].height) {
      paintVectors(scene, at[kind], kind);
      paintNames(scene, at[kind], kind, (p) => cellOf(now, kind, p));
    }
  if (at.state.height) paintStates(scene, at.state);
  paintAttention(scene, at.attention);
  paintPointed(scene, at);
  c.restore();
  hairline(
    c,
    0,
    at.attention.y + at.attention.height,
    width,
    at.attention.y + at.attention.height,
    scene.palette["line-2"],
  );
  if (at.q.height) paintQueryNote(scene, at.q, offset, width);
  const shownRanges = ranges.peek();
  if (KINDS.some((kind) => shownRanges[kind] !== images[kind].range))
    ranges.value = Object.fromEntries(KINDS.map((kind) => [kind, images[kind].range]));
}

/**
 * Paint the stage before the first record: outlines of future keys and values in blocks, fading to the right.
 * @param {CanvasRenderingContext2D} c @param {number} width @param {number} height
 */
export function paintOutline(c, width, height) {
  const [at, blockSize, count] = [rowsOf(null, height), Number(settings.block_size.value ?? 0), NUM_OUTLINES];
  const layout = columns({ count, expected: count, blockSize, width, minimum: 0, maximum: MAX_OUTLINE });
  const scene = { c, palette: colours(), layout };
  for (let p = 0; p < count; p++)
    for (const kind of KINDS)
      if (kind !== "q" && at[kind].height) paintPlaceholder(scene, layout.x(p), at[kind], (1 - p / count) / 2);
}

/**
 * Return the highlight (0 to 1) of the column at `position`. Keys are read in order during `attend`.
 * @param {Pick<Scene, "now" | "phases">} scene @param {number} position
 */
function readProgress({ now, phases }, position) {
  if (!now.attention) return 0;
  const { keyStart, weights } = now.attention;
  return phases.attend === 1 ? 1 : readProgressAt(position - keyStart, weights.length, phases.attend);
}

/**
 * Call `paint(position, share of the largest weight, progress)` for the visible keys that the query has read so far.
 * @param {Scene} scene @param {(position: number, share: number, progress: number) => void} paint
 */
function eachRead(scene, paint) {
  const { now, first, last, phases } = scene;
  const row = now.attention;
  if (!row || phases.attend === 0) return;
  for (let p = Math.max(first, row.keyStart); p < Math.min(last, row.keyStart + row.weights.length); p++)
    paint(p, row.weights[p - row.keyStart] / (row.max || 1), readProgress(scene, p));
}

/**
 * Highlight each column while its key is read, with the weight as brightness.
 * @param {Scene} scene @param {ReturnType<typeof rowsOf>} at
 */
function paintReads(scene, at) {
  const { c, palette, layout } = scene;
  const top = at.attention.y + at.attention.height;
  eachRead(scene, (p, share, progress) => {
    if (share < 0.02 || progress === 0) return;
    c.fillStyle = alpha(palette.q, 0.45 * share * progress);
    c.fillRect(layout.x(p) - 1, top, layout.width + 2, at.v.y + at.v.height + 3 - top);
  });
}

/**
 * Paint the recurrent state under the token after which it was computed. Earlier checkpoints, from which a prompt with
 * this prefix could continue, are outlined.
 * @param {Scene} scene @param {Band} box
 */
function paintStates({ c, palette, now, layout, phases }, box) {
  const stored = storedStates(now);
  const newest = stored.at(-1);
  for (const { position, isNewest } of stored) {
    if (isNewest) continue;
    c.strokeStyle = palette.v;
    c.lineWidth = 1;
    c.strokeRect(layout.x(position) + 0.5, box.y + 3.5, layout.width - 1, box.height - 7);
  }
  if (!newest?.isNewest) return;
  const [start, end] = [layout.x(Math.max(0, (now.entry?.start ?? 1) - 1)), layout.x(newest.position)];
  if (now.entry?.start === 0 && phases.write === 0) return; // no token is included in the state yet
  const x = now.entry ? start + (end - start) * phases.write : end;
  const shades = c.createLinearGradient(0, box.y, 0, box.y + box.height);
  shades.addColorStop(0, palette.k);
  shades.addColorStop(1, palette.v);
  c.fillStyle = shades;
  roundRect(c, x, box.y, layout.width, box.height, 3);
  c.fill();
}

/** @param {Scene} scene @param {Band} box */
function paintAttention(scene, box) {
  const { c, palette, now, layout } = scene;
  const row = now.attention;
  if (!row) return;
  const top = niceCeiling(row.max);
  const base = box.y + box.height;
  const labelled = largest(row);
  c.font = "11px system-ui, sans-serif";
  c.textAlign = "center";
  /** @type {{weight: number, text: string, middle: number, half: number, y: number, progress: number}[]} */
  const figures = [];
  eachRead(scene, (p, _share, progress) => {
    if (progress === 0) return;
    const weight = row.weights[p - row.keyStart];
    const height = Math.max(1, (box.height - 16) * (weight / top)) * progress;
    const x = layout.x(p);
    c.fillStyle = sequentialAt(palette.sequential, 0.25 + 0.75 * (weight / top));
    roundRect(c, x + 2, base - height, layout.width - 4, height, 2);
    c.fill();
    if (!labelled.has(p) && pointed.value?.position !== p) return;
    const text = probabilityText(weight);
    const half = c.measureText(text).width / 2;
    const middle = figureMiddle(x + layout.width / 2, half, scene, layout.width / 2);
    if (middle === null) return;
    figures.push({ weight, text, middle, half, y: base - height - 4, progress });
  });
  c.fillStyle = palette["ink-2"];
  for (const { text, middle, y, progress } of separateFigures(figures)) {
    c.globalAlpha = progress;
    c.fillText(text, middle, y);
  }
  c.globalAlpha = 1;
}

/** Return the positions of the three largest weights of a row. @param {Row} row */
function largest(row) {
  let found = largestOf.get(row);
  if (!found) {
    /** @type {number[]} */
    const top = [];
    row.weights.forEach((weight, i) => {
      const place = top.findIndex((j) => weight > row.weights[j]);
      if (place >= 0) top.splice(place, 0, i);
      else if (top.length < 3) top.push(i);
      if (top.length > 3) top.pop();
    });
    largestOf.set(row, (found = new Set(top.map((i) => i + row.keyStart))));
  }
  return found;
}

/** @param {Scene} scene @param {ReturnType<typeof rowsOf>} at */
function paintPointed({ c, palette, layout }, at) {
  const position = pointed.value?.position;
  if (position === undefined || position >= layout.count) return;
  c.strokeStyle = palette.focus;
  c.lineWidth = 1.5;
  roundRect(
    c,
    layout.x(position) - 1.5,
    at.attention.y,
    layout.width + 3,
    at.q.y + at.q.height - at.attention.y + 2,
    4,
  );
  c.stroke();
}

/**
 * Note in the query row that queries are not cached, if it fits.
 * @param {Scene} scene @param {Band} box @param {number} offset
 * @param {number} width
 */
function paintQueryNote({ c, palette, now, layout, phases }, box, offset, width) {
  const start = phases.qkv > 0 && now.entry ? now.entry.start : layout.count;
  const room = Math.min(width, layout.x(Math.max(0, start - 1)) + layout.width - offset) - 12;
  if (start < 1) return;
  c.font = "12px system-ui, sans-serif";
  c.textAlign = "left";
  const text = ["stage.query_gone", "stage.query_gone_short"]
    .map((key) => t(key))
    .find((words) => c.measureText(words).width <= room);
  if (!text) return;
  c.fillStyle = palette["ink-3"];
  c.fillText(text, 4, box.y + box.height / 2 + 4);
}
