// Painting of the map of all layers and heads, by the heads' roles or their newest rows.

import { pooled, rowOf } from "../../core/attention.js";
import { isWhole, layersHere } from "../../core/wide_rows.js";
import { contextOf, prepare } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { requestLayer } from "../../net/commands.js";
import { roles } from "../../state/roles.js";
import { settings } from "../../state/settings.js";
import { sequenceView } from "../../state/store.js";
import { nameOf, sources } from "./matrix_image.js";
import { attended } from "./overview_paint.js";
import { lookupTable } from "./rows.js";

/** @import {View} from "../../state/store.js" */
/** @import {HeadMapLayout} from "./map_geometry.js" */

/**
 * @typedef {import("../../core/slot_origins.js").Origin} KeyOrigin
 * @typedef {{count: number, best: import("../../core/trace.js").HeadPattern}} Kind number of such heads, and the
 *   clearest one
 */

/**
 * Families of patterns that share a colour. `hue` indexes the eight sequence colours; these remain distinct under
 * colour-vision deficiencies. `mark` is the position in the row (0 to 1) that such a head attends to.
 */
export const FAMILIES = /** @type {const} */ ([
  { name: "before", patterns: ["previous_token"], hue: 5, mark: 0.8 },
  { name: "first", patterns: ["first_token"], hue: 7, mark: 0 },
  { name: "itself", patterns: ["itself"], hue: 6, mark: 1 },
  { name: "induction", patterns: ["induction"], hue: 3, mark: 0.3 },
  { name: "clause", patterns: ["parallel_clause", "clause_start", "last_punctuation"], hue: 2, mark: 0.55 },
]);

const MAX_MEASURED = 12; // maximum number of records fetched to measure roles
const MARK_FROM = 8; // minimum px of a cell for a mark at the attended position
const [FAINTEST, DIMMED] = [0.4, 0.12]; // opacity of the weakest role, and of families that are not highlighted

/** Name of the family of a pattern. @param {string} pattern */
export const familyOf = (pattern) => familyWith(pattern).name;

/** @param {string} pattern */
const familyWith = (pattern) =>
  FAMILIES.find((one) => /** @type {readonly string[]} */ (one.patterns).includes(pattern)) ?? FAMILIES[0];

/**
 * @param {HTMLCanvasElement | null} canvas @param {import("../../kit/canvas.js").Size} size
 * @param {HeadMapLayout} layout
 * @param {string | null} highlighted family
 */
export function paintMap(canvas, { width, height }, layout, highlighted) {
  if (!canvas) return;
  const c = prepare(canvas, width, height);
  const now = sequenceView.value;
  if (!now?.numFilled) return;
  const from = sources.peek();
  if (settings.overview.value === "matrix") {
    const key = `roles/${now.log.id}/${roles.value?.version}/${highlighted}`;
    drawCells(c, key, (context) => paintRoles(context, layout, highlighted));
    fetchRows(now, from, MAX_MEASURED); // prefill records come first: one record has many queries
  } else {
    const keys = now.entry && !attended.value ? now.entry.start : now.numFilled;
    const source = from[keys - 1] ?? null;
    const numLayers = source ? layersHere(now.log, source.record).length : 0;
    const key = `rows/${now.log.id}/${source ? nameOf(source) : ""}/${numLayers}`;
    drawCells(c, key, (context) => paintRows(context, now, layout, source, keys));
    if (source) fetchRows(now, [source], 1);
  }
  paintAxes(c, now, layout);
}

/** @type {{canvas: HTMLCanvasElement, key: string} | null} last painted map, without axes */
let picture = null;

/**
 * Draw the cells from a cached image, repainted only if `key` changes.
 * @param {CanvasRenderingContext2D} c
 * @param {string} key everything the image depends on, except canvas and theme
 * @param {(context: CanvasRenderingContext2D) => void} paintCells paints the cells in the canvas' coordinates
 */
function drawCells(c, key, paintCells) {
  const { width, height } = c.canvas;
  const fullKey = `${key}/${width}x${height}/${themeVersion.peek()}`;
  picture ??= { canvas: document.createElement("canvas"), key: "" };
  if (picture.key !== fullKey) {
    picture.key = fullKey;
    picture.canvas.width = width; // also clears it
    picture.canvas.height = height;
    const context = contextOf(picture.canvas);
    context.setTransform(c.getTransform());
    paintCells(context);
  }
  c.save();
  c.resetTransform();
  c.drawImage(picture.canvas, 0, 0);
  c.restore();
}

/** @param {CanvasRenderingContext2D} c @param {HeadMapLayout} layout @param {string | null} highlighted */
function paintRoles(c, layout, highlighted) {
  const palette = colours();
  const measured = roles.value;
  layout.layers.forEach((l, line) =>
    layout.heads.forEach((h, place) => {
      const [x, y, cellWidth, cellHeight] = [
        layout.x(place),
        layout.y(line),
        layout.cellWidth(place),
        layout.cellHeight(line),
      ];
      const role = measured?.role(l, h);
      c.globalAlpha = 1;
      c.fillStyle = palette["line-2"];
      c.fillRect(x, y, cellWidth, cellHeight);
      if (!role) return;
      const { name, hue, mark } = familyWith(role.pattern);
      const strength = FAINTEST + (1 - FAINTEST) * Math.min(1, role.mean_weight);
      c.globalAlpha = highlighted && highlighted !== name ? DIMMED : strength;
      c.fillStyle = palette.sequences[hue];
      if (cellWidth < MARK_FROM) return c.fillRect(x, y, cellWidth, cellHeight);
      const wide = Math.max(3, Math.round(cellWidth / 4));
      c.globalAlpha *= 0.45;
      c.fillRect(x, y, cellWidth, cellHeight);
      c.globalAlpha /= 0.45;
      c.fillRect(x + Math.round((cellWidth - wide) * mark), y, wide, cellHeight);
    }),
  );
}

/**
 * Paint the newest row of each head. Keys are pooled to the cell's pixels; a pixel shows the largest weight of its bin.
 * @param {CanvasRenderingContext2D} c @param {View} now @param {HeadMapLayout} layout
 * @param {KeyOrigin | null} source origin of the row
 * @param {number} keys number of keys in the row
 */
function paintRows(c, now, layout, source, keys) {
  const { width, height } = c.canvas;
  const ratio = c.getTransform().a;
  const image = c.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const scale = lookupTable();
  const empty = rgbOf(c, colours()["line-2"]);
  layout.layers.forEach((l, line) =>
    layout.heads.forEach((h, place) => {
      const [left, top] = [Math.round(layout.x(place) * ratio), Math.round(layout.y(line) * ratio)];
      const wide = Math.max(1, Math.round(layout.cellWidth(place) * ratio));
      const row = source && rowOf(now.log, source, l, h);
      const bins = Math.min(keys, wide);
      const shares = row && pooled(row, keys / bins, bins);
      const first = top * width + left;
      for (let i = 0; i < wide && left + i < width; i++)
        pixels[first + i] = shares ? scale[1 + Math.round(254 * shareAt(shares, i / wide, row.max))] : empty;
      const high = Math.max(1, Math.round(layout.cellHeight(line) * ratio));
      for (let y = 1; y < high; y++) pixels.copyWithin(first + y * width, first, first + wide);
    }),
  );
  c.putImageData(image, 0, 0);
}

/**
 * Return the value at fraction `t` of the row, as a share of `max`.
 * @type {(shares: Float32Array, t: number, max: number) => number}
 */
const shareAt = (shares, t, max) => shares[Math.floor(t * shares.length)] / (max || 1);

/** Convert a CSS colour to a pixel. @param {CanvasRenderingContext2D} c @param {string} colour */
function rgbOf(c, colour) {
  c.fillStyle = colour;
  const value = Number.parseInt(String(c.fillStyle).slice(1), 16); // #rrggbb
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

/**
 * Fetch missing arrays of the first `maxRecords` records that computed rows of the text.
 * @param {View} now @param {(KeyOrigin | null)[]} from @param {number} maxRecords
 */
function fetchRows(now, from, maxRecords) {
  const records = new Set(from.flatMap((source) => (source ? [source.record] : [])));
  for (const record of [...records].slice(0, maxRecords)) if (!isWhole(now.log, record)) requestLayer(record, null);
}

/**
 * Paint layer and head numbers, lines under heads that share a KV head, and the frame of the chosen head.
 * @param {CanvasRenderingContext2D} c @param {View} now @param {HeadMapLayout} layout
 */
function paintAxes(c, now, layout) {
  const palette = colours();
  const family = fontOf(c.canvas);
  const [line, place] = [layout.layers.indexOf(now.layer), layout.heads.indexOf(now.head)];
  c.textBaseline = "middle";
  /** @type {(text: number, x: number, y: number, chosen: boolean) => void} */
  const drawNumber = (text, x, y, chosen) => {
    c.font = `${chosen ? "600 " : ""}12px ${family}`;
    c.fillStyle = chosen ? palette.ink : palette["ink-3"];
    c.fillText(String(text), x, y);
  };
  c.textAlign = "right";
  for (const index of withChosen(layout.labelledLayers, line))
    drawNumber(
      layout.layers[index],
      layout.x(0) - 5,
      layout.y(index) + layout.cellHeight(index) / 2 + 0.5,
      index === line,
    );
  c.textAlign = "center";
  for (const index of withChosen(layout.labelledHeads, place))
    drawNumber(layout.heads[index], layout.x(index) + layout.cellWidth(index) / 2, 6, index === place);
  if (layout.group > 1 && layout.heads.length === now.log.header.model.num_heads && layout.cellWidth(0) >= 2) {
    c.fillStyle = palette.k;
    for (let first = 0; first < layout.heads.length; first += layout.group) {
      const end = layout.x(first + layout.group - 1) + layout.cellWidth(first + layout.group - 1);
      c.fillRect(layout.x(first), layout.top - 4, Math.max(1, end - layout.x(first) - 1), 1.5);
    }
  }
  if (line < 0 || place < 0) return;
  const [x, y, cellWidth, cellHeight] = [
    layout.x(place),
    layout.y(line),
    layout.cellWidth(place),
    layout.cellHeight(line),
  ];
  c.lineWidth = 1.5;
  c.strokeStyle = palette.paper; // so that it stands out from any colour
  c.strokeRect(x - 2.5, y - 2.5, cellWidth + 5, cellHeight + 5);
  c.lineWidth = 2;
  c.strokeStyle = palette.q;
  c.strokeRect(x - 1, y - 1, cellWidth + 2, cellHeight + 2);
}

/** The page's font, cached because reading it forces a layout. @param {HTMLCanvasElement} canvas */
function fontOf(canvas) {
  font ??= getComputedStyle(canvas).fontFamily;
  return font;
}

/** @type {string | null} */
let font = null;

/**
 * Return the labelled indices with `chosen` in place of its nearest neighbours.
 * @param {number[]} labelled @param {number} chosen
 */
function withChosen(labelled, chosen) {
  if (chosen < 0) return labelled;
  const step = (labelled[1] ?? 1) - labelled[0] || 1;
  return [...labelled.filter((place) => Math.abs(place - chosen) >= step), chosen];
}
