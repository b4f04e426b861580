// Over the map: lines from block tables to blocks, and what travels: out of the free queue, back to it, from block to
// block.

import { groupOf, groupOfLayer, RELEASED } from "../../core/groups.js";
import { prepare, roundRect, usePainter } from "../../kit/canvas.js";
import { alpha, colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { sequencePattern } from "../../kit/texture.js";
import { phasesNow } from "../../state/moment.js";
import { connected, layer, pointed, state } from "../../state/store.js";
import { shownLayout } from "./pool.js";
import { travelling } from "./pool_motion.js";
import { scene, watchMotions } from "./pool_scene.js";

/**
 * @typedef {import("./pool_geometry.js").Box} Box
 * @typedef {import("./pool_motion.js").Piece} Piece
 * @typedef {{seq: number, group: number, logical: number, block: number, strong: boolean}} Line
 * @typedef {{
 *   c: CanvasRenderingContext2D, map: Element, origin: DOMRect, left: number, top: number,
 *   layout: import("./pool_geometry.js").PoolLayout, palette: import("../../kit/colour.js").Palette,
 * }} Place what is drawn on, in the overlay's pixels
 */

const FEW = 6; // so many table entries in all have their lines without being asked
const SEVERAL = 64; // more lines than these are a thicket: only frames then

export function Overlay() {
  const ref = usePainter(
    () => [scene.value, connected.value, pointed.value, layer.value, themeVersion.value, watchMotions()],
    paint,
  );
  return html`<div class="pool-overlay" ref=${ref} aria-hidden="true"><canvas></canvas></div>`;
}

/**
 * @param {HTMLElement} box
 * @param {{width: number, height: number}} size
 */
function paint(box, { width, height }) {
  const [canvas, map] = [box.querySelector("canvas"), box.parentElement];
  const window_ = map?.querySelector(".pool-window");
  if (!canvas) return;
  const c = prepare(canvas, width, height);
  if (!scene.value || !shownLayout || !map || !window_ || width === 0) return;
  const origin = box.getBoundingClientRect();
  const from = window_.getBoundingClientRect();
  const [left, top] = [from.left - origin.left, from.top - origin.top];
  const place = { c, map, origin, left, top, layout: shownLayout, palette: colours() };
  paintLines(place);
  for (const piece of travelling(scene.value.motions, phasesNow())) paintTravel(place, piece);
}

/**
 * Where a block's slots lie, in the overlay's pixels.
 *
 * @param {Place} place
 * @param {number} id
 * @returns {Box}
 */
function boxOf({ left, top, layout }, id) {
  const at = layout.blockAt(id);
  const slots = layout.level === "slots";
  return {
    x: left + at.x,
    y: top + at.y + layout.head,
    width: slots ? layout.perRow * layout.cell : at.width,
    height: slots ? layout.lines * layout.tall : at.height,
  };
}

/**
 * The box of an element of the map, in the overlay's pixels; null when it is not there or scrolled out of sight.
 *
 * @param {Place} place
 * @param {string} selector
 * @returns {Box | null}
 */
function elementBox({ map, origin }, selector) {
  const element = map.querySelector(selector);
  if (!element) return null;
  const box = element.getBoundingClientRect();
  const frame = element.parentElement?.closest(".table-rows, .queue-ids")?.getBoundingClientRect();
  if (frame && (box.bottom > frame.bottom + 2 || box.top < frame.top - 2)) return null;
  return { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height };
}

/** @param {Place} place */
function paintLines(place) {
  for (const { seq, group, logical, block, strong } of wantedLines()) {
    const entry = elementBox(
      place,
      `.table-row[data-seq="${seq}"][data-group="${group}"] .entry:nth-of-type(${logical + 1})`,
    );
    if (entry) paintLine(place, entry, boxOf(place, block), place.palette.sequences[seq % 8], strong);
  }
}

/**
 * Lines to draw: those of what is pointed at, else all of the shown layer's block group while they are few.
 *
 * @returns {Line[]}
 */
function wantedLines() {
  const lit = connected.value;
  if (!state.value) return [];
  const shown = groupOfLayer(state.value.block_groups, layer.value);
  /** @type {Line[]} */
  const all = [];
  for (const seq of state.value.sequences.values()) {
    const own = lit?.seqs.has(seq.seq_id);
    seq.block_tables.forEach((/** @type {number[]} */ table, /** @type {number} */ group) => {
      if (!lit && group !== shown) return;
      table.forEach((block, logical) => {
        if (block !== RELEASED && (!lit || (own && lit.blocks.has(block))))
          all.push({ seq: seq.seq_id, group, logical, block, strong: Boolean(lit) });
      });
    });
  }
  return all.length <= (lit ? SEVERAL : FEW) ? all : [];
}

/**
 * From the upper edge of a table entry to the lower edge of its block.
 *
 * @param {Place} place
 * @param {Box} entry
 * @param {Box} block
 * @param {string} colour
 * @param {boolean} strong
 */
function paintLine({ c, palette }, entry, block, colour, strong) {
  const [x0, y0] = [entry.x + entry.width / 2, entry.y];
  const [x1, y1] = [block.x + block.width / 2, block.y + block.height + 1];
  const bend = Math.max(10, (y0 - y1) * 0.45);
  c.fillStyle = strong ? palette.focus : colour;
  c.strokeStyle = strong ? palette.focus : fading(c, colour, y0, y1);
  c.globalAlpha = strong ? 0.85 : 0.7;
  c.lineWidth = strong ? 1.5 : 1;
  c.beginPath();
  c.moveTo(x0, y0);
  c.bezierCurveTo(x0, y0 - bend, x1, y1 + bend, x1, y1);
  c.stroke();
  c.beginPath();
  c.arc(x1, y1, strong ? 2.5 : 2, 0, 2 * Math.PI);
  c.fill();
  c.globalAlpha = 1;
}

/**
 * Strong where a line begins and ends, faint where it crosses blocks that it does not concern.
 *
 * @param {CanvasRenderingContext2D} c
 * @param {string} colour
 * @param {number} y0
 * @param {number} y1
 */
function fading(c, colour, y0, y1) {
  const reach = Math.min(0.5, 18 / Math.max(1, Math.abs(y0 - y1)));
  const gradient = c.createLinearGradient(0, y0, 0, y1);
  for (const [at, strength] of [
    [0, 1],
    [reach, 0.22],
    [1 - reach, 0.22],
    [1, 1],
  ])
    gradient.addColorStop(at, alpha(colour, strength));
  return gradient;
}

/** @type {Record<Piece["kind"], (place: Place, piece: Piece) => [Box | null, Box | null]>} */
const PLACES = {
  take: (place, piece) => [
    elementBox(place, `${queueOf(piece.block)} .chip.head`) ?? queueEnd(place, piece.block, "front"),
    boxOf(place, piece.block),
  ],
  give: (place, piece) => [boxOf(place, piece.block), queueEnd(place, piece.block, piece.end)],
  split: (place, piece) => [boxOf(place, piece.src ?? piece.block), boxOf(place, piece.block)],
  swap_out: (place, piece) => [boxOf(place, piece.block), cpuBox(place, piece.cpu_block_id)],
  swap_in: (place, piece) => [cpuBox(place, piece.cpu_block_id), boxOf(place, piece.block)],
};

/**
 * The free queue of a block's group, as a selector.
 *
 * @param {number} block
 */
const queueOf = (block) => `.queue[data-group="${groupOf(state.value?.block_groups ?? [], block)}"]`;

/** @type {(place: Place, block: number, end?: "front" | "back") => Box | null} */
const queueEnd = (place, block, end) =>
  elementBox(place, `${queueOf(block)} ${end === "front" ? ".chip:first-child" : ".chip:last-child"}`) ??
  elementBox(place, `${queueOf(block)} .queue-ids`);

/** @type {(place: Place, id?: number) => Box | null} */
const cpuBox = (place, id) =>
  elementBox(place, `#cpu-store [data-cpu="${id}"]`) ?? elementBox(place, "#cpu-store") ?? elementBox(place, ".tables");

/**
 * A block on its way, as large as where it comes from and, in the end, as where it goes.
 *
 * @param {Place} place
 * @param {Piece} piece
 */
function paintTravel(place, piece) {
  const [from, to] = PLACES[piece.kind](place, piece);
  if (!from || !to) return;
  const { c, palette } = place;
  /** @param {keyof Box} name */
  const mix = (name) => from[name] + (to[name] - from[name]) * piece.p;
  const [x, y, width, height] = [mix("x"), mix("y"), mix("width"), mix("height")];
  const colour = palette.sequences[piece.seq % 8];
  c.globalAlpha = piece.p < 0.85 ? 0.9 : (0.9 * (1 - piece.p)) / 0.15;
  roundRect(c, x, y, width, height, 2);
  c.fillStyle = palette.paper;
  c.fill();
  c.fillStyle = alpha(colour, 0.35);
  c.fill();
  if (piece.kind !== "take") {
    c.fillStyle = sequencePattern(c, piece.seq, colour, 0.4);
    c.fill();
  }
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.stroke();
  c.globalAlpha = 1;
}
