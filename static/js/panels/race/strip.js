// A lane's slots as small squares: computed in this step, read from the cache, reserved and empty.

import { alpha, colours } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { wastePattern } from "../../kit/texture.js";
import { Picture } from "../../runs/picture.js";
import { t } from "../../tell/words.js";
import { player } from "./player.js";

/**
 * @typedef {import("../../core/log.js").TraceLog} TraceLog
 * @typedef {import("../../runs/picture.js").Size} Size
 */

const ROOM_FOR_GAPS = 3; // px a slot from which squares stand apart
const ROOM_FOR_BLOCKS = 5; // px a block from which its frame is drawn

export function Legend() {
  const keys = ["computed", "read", "reserved"];
  return html`<ul class="race-keys">
    ${keys.map((name) => html`<li><i class=${`key race-key ${name}`}></i>${t(`race.legend.${name}`)}</li>`)}
  </ul>`;
}

/** @param {{name: string, index: number, lane: import("./figures.js").Lane | null, logs: TraceLog[] | null}} props */
export function LaneStrip({ name, index, lane, logs }) {
  const slots = lane?.slots ?? null;
  const empty = slots && slots.reserved - slots.read - slots.computed;
  const label = slots ? t("race.strip", { name, read: slots.read, computed: slots.computed, empty }) : name;
  const paint = (/** @type {CanvasRenderingContext2D} */ c, /** @type {Size} */ size) => {
    c.fillStyle = colours()["line-2"];
    c.fillRect(0, size.height - 1, size.width, 1);
    if (slots && logs) paintSlots(c, size, slots, logs, index);
  };
  return html`<${Picture} player=${player} name="race-strip" label=${label} paint=${paint} />`;
}

/**
 * @param {CanvasRenderingContext2D} c
 * @param {Size} size
 * @param {{reserved: number, read: number, computed: number}} slots
 * @param {TraceLog[]} logs
 * @param {number} index of the lane
 */
function paintSlots(c, { width, height }, slots, logs, index) {
  const palette = colours();
  // every lane on one scale: as many slots as the longest reservation can have
  const capacity = Math.max(...logs.map((log) => Number(log.header.engine.max_model_len ?? 0)), slots.reserved);
  const size = width / capacity;
  const gap = size >= ROOM_FOR_GAPS ? 1 : 0;
  const filled = slots.read + slots.computed;
  const run = (/** @type {number} */ from, /** @type {number} */ to, /** @type {string} */ style) => {
    if (to <= from) return;
    c.fillStyle = style;
    if (!gap) return c.fillRect(from * size, 0, (to - from) * size, height - 2);
    for (let slot = from; slot < to; slot++) c.fillRect(slot * size, 0, size - gap, height - 2);
  };
  run(0, slots.read, alpha(palette.k, 0.55));
  run(slots.read, filled, palette.q);
  c.fillStyle = wastePattern(c, palette.waste);
  c.fillRect(filled * size, 0, (slots.reserved - filled) * size, height - 2);
  c.strokeStyle = palette["ink-3"];
  c.lineWidth = 1;
  const { block_size: blockSize } = logs[index].tail;
  const block = blockSize * size; // px
  for (let slot = 0; block >= ROOM_FOR_BLOCKS && slot < slots.reserved; slot += blockSize)
    c.strokeRect(Math.round(slot * size) + 0.5, 0.5, Math.max(1, Math.round(block) - 2), height - 3);
}
