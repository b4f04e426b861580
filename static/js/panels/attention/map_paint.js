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
 * Patterns that share one colour: `hue` indexes the eight sequence colours, chosen to be distinct under colour-vision
 * deficiencies. `mark` is where in its row, from 0 to 1, such a head looks.
 */
export const FAMILIES = /** @type {const} */ ([
  { name: "before", patterns: ["previous_token"], hue: 5, mark: 0.8 },
  { name: "first", patterns: ["first_token"], hue: 7, mark: 0 },
  { name: "itself", patterns: ["itself"], hue: 6, mark: 1 },
  { name: "induction", patterns: ["induction"], hue: 3, mark: 0.3 },
  { name: "clause", patterns: ["parallel_clause", "clause_start", "last_punctuation"], hue: 2, mark: 0.55 },
]);

const MEASURED = 12; // records fetched to measure roles, in addition to those on display
const MARKED_FROM = 8; // px of a cell from which a mark shows where the head looks
const [FAINTEST, APART] = [0.4, 0.12]; // opacity of the weakest role; of kinds that are not highlighted

/** Name of the colour of a pattern. @param {string} pattern */
export const familyOf = (pattern) => found(pattern).name;

/** @param {string} pattern */
const found = (pattern) =>
  FAMILIES.find((one) => /** @type {readonly string[]} */ (one.patterns).includes(pattern)) ?? FAMILIES[0];

/**
 * @param {HTMLCanvasElement | null} canvas
 * @param {import("../../kit/canvas.js").Size} size
 * @param {HeadMapLayout} at
 * @param {string | null} alone the highlighted family
 */
export function paintMap(canvas, { width, height }, at, alone) {
  if (!canvas) return;
  const c = prepare(canvas, width, height);
  const now = sequenceView.value;
  if (!now?.numFilled) return;
  const from = sources.peek();
  if (settings.overview.value === "matrix") {
    const key = `roles/${now.log.id}/${roles.value?.version}/${alone}`;
    drawCells(c, key, (context) => paintRoles(context, at, alone));
    fetchRows(now, from, MEASURED); // prefill records first: one has many queries
  } else {
    const keys = now.entry && !attended.value ? now.entry.start : now.numFilled;
    const source = from[keys - 1] ?? null;
    const here = source ? layersHere(now.log, source.record).length : 0;
    const key = `rows/${now.log.id}/${source ? nameOf(source) : ""}/${here}`;
    drawCells(c, key, (context) => paintRows(context, now, at, source, keys));
    if (source) fetchRows(now, [source], 1);
  }
  paintAxes(c, now, at);
}

/** @type {{canvas: HTMLCanvasElement, key: string} | null} the last painted map, without axes */
let picture = null;

/**
 * Draw the cells from a cached image, repainted only if `key` changes.
 * @param {CanvasRenderingContext2D} c
 * @param {string} key everything the image depends on, except canvas and theme
 * @param {(context: CanvasRenderingContext2D) => void} make paints the cells in the canvas' coordinates
 */
function drawCells(c, key, make) {
  const { width, height } = c.canvas;
  const whole = `${key}/${width}x${height}/${themeVersion.peek()}`;
  picture ??= { canvas: document.createElement("canvas"), key: "" };
  if (picture.key !== whole) {
    picture.key = whole;
    picture.canvas.width = width; // also clears it
    picture.canvas.height = height;
    const context = contextOf(picture.canvas);
    context.setTransform(c.getTransform());
    make(context);
  }
  c.save();
  c.resetTransform();
  c.drawImage(picture.canvas, 0, 0);
  c.restore();
}

/** @param {CanvasRenderingContext2D} c @param {HeadMapLayout} at @param {string | null} alone */
function paintRoles(c, at, alone) {
  const palette = colours();
  const measured = roles.value;
  at.layers.forEach((l, line) =>
    at.heads.forEach((h, place) => {
      const [x, y, across, down] = [at.x(place), at.y(line), at.across(place), at.down(line)];
      const role = measured?.role(l, h);
      c.globalAlpha = 1;
      c.fillStyle = palette["line-2"];
      c.fillRect(x, y, across, down);
      if (!role) return;
      const { name, hue, mark } = found(role.pattern);
      const strength = FAINTEST + (1 - FAINTEST) * Math.min(1, role.mean_weight);
      c.globalAlpha = alone && alone !== name ? APART : strength;
      c.fillStyle = palette.sequences[hue];
      if (across < MARKED_FROM) return c.fillRect(x, y, across, down);
      const wide = Math.max(3, Math.round(across / 4));
      c.globalAlpha *= 0.45;
      c.fillRect(x, y, across, down);
      c.globalAlpha /= 0.45;
      c.fillRect(x + Math.round((across - wide) * mark), y, wide, down);
    }),
  );
}

/**
 * Paint the newest row of each head. Keys are pooled to the cell's pixels; a pixel shows the largest weight of its bin.
 * @param {CanvasRenderingContext2D} c
 * @param {View} now
 * @param {HeadMapLayout} at
 * @param {KeyOrigin | null} source origin of the row
 * @param {number} keys number of keys in the row
 */
function paintRows(c, now, at, source, keys) {
  const { width, height } = c.canvas;
  const ratio = c.getTransform().a;
  const image = c.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const scale = lookupTable();
  const empty = rgbOf(c, colours()["line-2"]);
  at.layers.forEach((l, line) =>
    at.heads.forEach((h, place) => {
      const [left, top] = [Math.round(at.x(place) * ratio), Math.round(at.y(line) * ratio)];
      const wide = Math.max(1, Math.round(at.across(place) * ratio));
      const row = source && rowOf(now.log, source, l, h);
      const bins = Math.min(keys, wide);
      const shares = row && pooled(row, keys / bins, bins);
      const first = top * width + left;
      for (let i = 0; i < wide && left + i < width; i++)
        pixels[first + i] = shares ? scale[1 + Math.round(254 * shareAt(shares, i / wide, row.max))] : empty;
      const high = Math.max(1, Math.round(at.down(line) * ratio));
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
 * Fetch missing arrays of the first `most` records that computed rows of the text.
 * @param {View} now
 * @param {(KeyOrigin | null)[]} from
 * @param {number} most
 */
function fetchRows(now, from, most) {
  const records = new Set(from.flatMap((source) => (source ? [source.record] : [])));
  for (const record of [...records].slice(0, most)) if (!isWhole(now.log, record)) requestLayer(record, null);
}

/**
 * Paint layer and head numbers, lines under heads that share a KV head, and the frame of the chosen head.
 * @param {CanvasRenderingContext2D} c
 * @param {View} now
 * @param {HeadMapLayout} at
 */
function paintAxes(c, now, at) {
  const palette = colours();
  const family = fontOf(c.canvas);
  const [line, place] = [at.layers.indexOf(now.layer), at.heads.indexOf(now.head)];
  c.textBaseline = "middle";
  /** @type {(text: number, x: number, y: number, chosen: boolean) => void} */
  const number = (text, x, y, chosen) => {
    c.font = `${chosen ? "600 " : ""}12px ${family}`;
    c.fillStyle = chosen ? palette.ink : palette["ink-3"];
    c.fillText(String(text), x, y);
  };
  c.textAlign = "right";
  for (const named of withChosen(at.namedLayers, line))
    number(at.layers[named], at.x(0) - 5, at.y(named) + at.down(named) / 2 + 0.5, named === line);
  c.textAlign = "center";
  for (const named of withChosen(at.namedHeads, place))
    number(at.heads[named], at.x(named) + at.across(named) / 2, 6, named === place);
  if (at.group > 1 && at.heads.length === now.log.header.model.num_heads && at.across(0) >= 2) {
    c.fillStyle = palette.k;
    for (let first = 0; first < at.heads.length; first += at.group) {
      const end = at.x(first + at.group - 1) + at.across(first + at.group - 1);
      c.fillRect(at.x(first), at.top - 4, Math.max(1, end - at.x(first) - 1), 1.5);
    }
  }
  if (line < 0 || place < 0) return;
  const [x, y, across, down] = [at.x(place), at.y(line), at.across(place), at.down(line)];
  c.lineWidth = 1.5;
  c.strokeStyle = palette.paper; // so that it stands out from any colour
  c.strokeRect(x - 2.5, y - 2.5, across + 5, down + 5);
  c.lineWidth = 2;
  c.strokeStyle = palette.q;
  c.strokeRect(x - 1, y - 1, across + 2, down + 2);
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
 * @param {number[]} named
 * @param {number} chosen
 */
function withChosen(named, chosen) {
  if (chosen < 0) return named;
  const step = (named[1] ?? 1) - named[0] || 1;
  return [...named.filter((place) => Math.abs(place - chosen) >= step), chosen];
}
