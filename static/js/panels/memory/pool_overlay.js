// Overlay over the map: lines from block tables to blocks, and moving blocks between queue, pool and tiers.

import { groupOf, ownersByBlock, RELEASED } from "../../core/groups.js";
import { bytesText } from "../../i18n/words.js";
import { prepare, roundRect, usePainter } from "../../kit/canvas.js";
import { alpha, colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { sequencePattern } from "../../kit/texture.js";
import { phasesNow } from "../../state/playhead.js";
import { connected, layer, pointed } from "../../state/store.js";
import { onScreen } from "./pool.js";
import { becomingShared, receivedBytes, travelling } from "./pool_motion.js";
import { scene, watchMotions } from "./pool_scene.js";

/** @import {State} from "../../state/store.js" */
/** @import {Box, Layout} from "./pool_geometry.js" */
/** @import {Travelling} from "./pool_motion.js" */

const MAX_ALL_LINES = 6; // all lines are drawn if there are at most this many
const MAX_LINES = 64; // of a selection or of shared blocks; if there are more, none is drawn

/**
 * Context of the overlay's painters: canvas `c` over `map`, whose pool is at (`left`, `top`) in the overlay's pixels
 * with `layout`; `origin` is the overlay's own box.
 *
 * @typedef {{
 *   c: CanvasRenderingContext2D, now: State, layout: Layout, map: Element, origin: DOMRect, left: number, top: number,
 *   palette: import("../../kit/colour.js").Palette,
 * }} Place
 */

/**
 * Line from a table entry to its block. `strong`: it belongs to the selection.
 *
 * @typedef {{seq: number, group: number, logical: number, block: number, strong: boolean}} Line
 */

export function Overlay() {
  const ref = usePainter(
    () => [scene.value, connected.value, pointed.value, layer.value, themeVersion.value, watchMotions()],
    paint,
  );
  return html`<div class="pool-overlay" ref=${ref} aria-hidden="true"><canvas></canvas></div>`;
}

/** @param {HTMLElement} box @param {import("../../kit/canvas.js").Size} size */
function paint(box, { width, height }) {
  const canvas = box.querySelector("canvas");
  const map = box.parentElement;
  if (!canvas || !map) return;
  const c = prepare(canvas, width, height);
  const window_ = map.querySelector(".pool-window");
  const [layout, now] = [onScreen.layout, scene.value];
  if (!now || !layout || !window_ || width === 0) return;
  const origin = box.getBoundingClientRect();
  const from = window_.getBoundingClientRect();
  const [left, top] = [from.left - origin.left, from.top - origin.top];
  const place = { c, now: now.after, layout, map, origin, left, top, palette: colours() };
  const shared = becomingShared(now.motions, phasesNow());
  for (const line of visibleLines(now.after, shared)) paintLine(place, line);
  const pieces = travelling(now.motions, phasesNow());
  for (const piece of pieces) paintTravel(place, piece);
  paintBytes(place, pieces, receivedBytes(now.motions, phasesNow()));
}

/** Return the box of a block's slots in the overlay's pixels. @param {Place} place @param {number} id @returns {Box} */
function boxOf({ layout, left, top }, id) {
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
 * Return the box of an element of the map in the overlay's pixels, or null if it is missing, hidden or scrolled away.
 * @param {Place} place @param {string} selector
 * @returns {Box | null}
 */
function elementBox({ map, origin }, selector) {
  const element = map.querySelector(selector);
  if (!element?.getClientRects().length) return null;
  const box = element.getBoundingClientRect();
  const frame = element.parentElement?.closest(".table-rows, .queue-ids")?.getBoundingClientRect();
  if (frame && (box.bottom > frame.bottom + 2 || box.top < frame.top - 2)) return null;
  return { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height };
}

/**
 * Return the lines to draw. With a selection, these are its lines. Otherwise they are the lines of the shown layer's
 * block group, or only the lines to blocks in `shared` if there are many.
 * @param {State} now @param {Set<number>} shared
 */
function visibleLines(now, shared) {
  const selection = connected.value;
  /** @type {Line[]} */
  const all = [];
  for (const seq of now.sequences.values()) {
    const isSelected = selection?.seqs.has(seq.seq_id);
    seq.block_tables.forEach((table, group) => {
      if (!selection && !now.block_groups[group].layers.includes(layer.value)) return;
      table.forEach((block, logical) => {
        if (block !== RELEASED && (!selection || (isSelected && selection.blocks.has(block))))
          all.push({ seq: seq.seq_id, group, logical, block, strong: Boolean(selection) });
      });
    });
  }
  if (all.length <= (selection ? MAX_LINES : MAX_ALL_LINES)) return all;
  const ofShared = selection ? [] : all.filter(({ block }) => shared.has(block));
  return ofShared.length <= MAX_LINES ? ofShared : [];
}

/**
 * Paint a line from the upper edge of a table entry to the lower edge of its block.
 * @param {Place} place @param {Line} line
 */
function paintLine(place, { seq, group, logical, block: id, strong }) {
  const { c, palette } = place;
  const row = `.table-row[data-seq="${seq}"][data-group="${group}"]`;
  const entry = elementBox(place, `${row} .entry:nth-of-type(${logical + 1})`);
  if (!entry) return;
  const block = boxOf(place, id);
  const colour = palette.sequences[seq % 8];
  const [x0, y0] = [entry.x + entry.width / 2, entry.y];
  const [x1, y1] = [block.x + block.width / 2, block.y + block.height + 1];
  const bend = Math.max(10, (y0 - y1) * 0.45);
  c.fillStyle = strong ? palette.focus : colour;
  c.strokeStyle = strong ? palette.focus : fadedGradient(c, colour, y0, y1);
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
 * Gradient that is strong at the ends of a line and faint where it crosses unrelated blocks.
 * @param {CanvasRenderingContext2D} c @param {string} colour @param {number} y0
 * @param {number} y1
 */
function fadedGradient(c, colour, y0, y1) {
  const fadeEnd = Math.min(0.5, 18 / Math.max(1, Math.abs(y0 - y1)));
  const gradient = c.createLinearGradient(0, y0, 0, y1);
  for (const [at, strength] of [
    [0, 1],
    [fadeEnd, 0.22],
    [1 - fadeEnd, 0.22],
    [1, 1],
  ])
    gradient.addColorStop(at, alpha(colour, strength));
  return gradient;
}

/**
 * Return the boxes where a moving block starts and ends, each null if it is not visible.
 * @param {Place} place @param {Travelling} piece
 * @returns {[Box | null, Box | null]}
 */
function endsOf(place, piece) {
  const own = boxOf(place, piece.block);
  switch (piece.kind) {
    case "take": {
      const queue = queueOf(place, piece.block);
      return [elementBox(place, `${queue} .chip.head`) ?? queueEnd(place, queue, "front"), own];
    }
    case "give":
      return [own, queueEnd(place, queueOf(place, piece.block), piece.end)];
    case "split":
    case "receive":
      return [boxOf(place, piece.src), own];
    case "swap_out":
      return [own, cpuBox(place, piece.cpu_block_id)];
    case "swap_in":
      return [cpuBox(place, piece.cpu_block_id), own];
    case "load":
      return [tierBox(place, piece.medium, own), own];
    case "store":
      return [own, tierBox(place, piece.medium, own)];
  }
}

/** Selector of the free queue of a block's group. @param {Place} place @param {number} block */
const queueOf = ({ now }, block) => `.queue[data-group="${groupOf(now.block_groups, block)}"]`;

/** @type {(place: Place, queue: string, end: "front" | "back") => Box | null} */
const queueEnd = (place, queue, end) =>
  elementBox(place, `${queue} ${end === "front" ? ".chip:first-child" : ".chip:last-child"}`) ??
  elementBox(place, `${queue} .queue-ids`);

/** @type {(place: Place, id: number) => Box | null} */
const cpuBox = (place, id) =>
  elementBox(place, `#cpu-store [data-cpu="${id}"]`) ?? elementBox(place, "#cpu-store") ?? elementBox(place, ".tables");

/**
 * Box of a tier's bar, at most as wide as a block.
 * @type {(place: Place, medium: "cpu" | "disk", own: Box) => Box | null}
 */
function tierBox(place, medium, own) {
  const bar = elementBox(place, `#tiers [data-medium="${medium}"] .tier-bar`) ?? elementBox(place, ".tables");
  return bar && { ...bar, width: Math.min(bar.width, own.width) };
}

/**
 * Paint the bytes received in this record beside the blocks in transfer.
 * @param {Place} place @param {Travelling[]} pieces @param {number} bytes
 */
function paintBytes(place, pieces, bytes) {
  const { c, now, palette } = place;
  const received = pieces.flatMap((piece) =>
    piece.kind === "receive" && piece.src < now.blocks.length ? [piece] : [],
  );
  if (!received.length) return;
  const middles = received.map((piece) => {
    const [from, to] = [boxOf(place, piece.src), boxOf(place, piece.block)];
    const lower = Math.max(from.height, to.height);
    return { x: from.x + (to.x - from.x) * piece.p + from.width / 2, y: from.y + (to.y - from.y) * piece.p + lower };
  });
  const x = middles.reduce((sum, one) => sum + one.x, 0) / middles.length;
  const y = Math.max(...middles.map((one) => one.y)) + 14;
  const text = bytesText(Math.round(bytes));
  c.font = "bold 12px system-ui, sans-serif";
  c.textAlign = "center";
  const textWidth = c.measureText(text).width;
  c.fillStyle = alpha(palette.paper, 0.9);
  c.fillRect(x - textWidth / 2 - 3, y - 11, textWidth + 6, 14);
  c.fillStyle = palette.v;
  c.fillText(text, x, y);
}

/**
 * Paint a moving block, whose size changes from source to destination.
 * @param {Place} place @param {Travelling} piece
 */
function paintTravel(place, piece) {
  const [from, to] = endsOf(place, piece);
  if (!from || !to) return;
  const { c, palette } = place;
  /** @param {keyof Box} name */
  const mix = (name) => from[name] + (to[name] - from[name]) * piece.p;
  const [x, y, width, height] = [mix("x"), mix("y"), mix("width"), mix("height")];
  const seq = piece.seq ?? ownersByBlock(place.now).get(piece.block)?.[0] ?? null;
  const colour = seq === null ? palette["ink-2"] : palette.sequences[seq % 8];
  c.globalAlpha = piece.p < 0.85 ? 0.9 : (0.9 * (1 - piece.p)) / 0.15;
  roundRect(c, x, y, width, height, 2);
  c.fillStyle = palette.paper;
  c.fill();
  c.fillStyle = alpha(colour, 0.35);
  c.fill();
  if (piece.kind !== "take" && seq !== null) {
    c.fillStyle = sequencePattern(c, seq, colour, 0.4);
    c.fill();
  }
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.stroke();
  c.globalAlpha = 1;
}
