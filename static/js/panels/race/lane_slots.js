// A lane's slots as small squares: computed in this step, read from the cache, reserved and empty. For a lane without a
// cache, bars above show how often each position was computed.

import { grouped, t } from "../../i18n/words.js";
import { alpha, colours } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { wastePattern } from "../../kit/texture.js";
import { Picture } from "../../runs/picture.js";
import { labelOf } from "../../runs/tokens.js";
import { timesComputed } from "./figures.js";
import { lanes, race } from "./model.js";
import { player } from "./player.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Point, Size} from "../../runs/picture.js" */
/** @import {LaneFigures} from "./figures.js" */

const GAPS_FROM = 3; // minimum px of a slot for gaps between squares
const FRAMES_FROM = 5; // minimum px of a block for its frame
const SLOTS_HEIGHT = 16; // px; the counts are above the slots

export function Legend() {
  const keys = ["computed", "read", "reserved"];
  return html`<ul class="race-keys">
    ${keys.map((name) => html`<li><i class=${`key race-key ${name}`}></i>${t(`race.legend.${name}`)}</li>`)}
  </ul>`;
}

/** @param {{name: string, index: number, lane: LaneFigures | null, logs: TraceLog[] | null}} props */
export function LaneSlots({ name, index, lane, logs }) {
  const slots = lane?.slots ?? null;
  const recomputes = lanes.value[index] === "none";
  const times = logs && lane ? timesComputed(logs[index], lane.step) : [];
  const empty = slots && slots.reserved - slots.read - slots.computed;
  const label = slots ? t("race.slots", { name, read: slots.read, computed: slots.computed, empty }) : name;
  const sequence = [...(logs?.[index].tail.sequences.values() ?? [])][0];
  const countText = recomputes && times.length ? timesText(times, sequence.num_prompt_tokens) : "";
  const paint = (/** @type {CanvasRenderingContext2D} */ c, /** @type {Size} */ { width, height }) => {
    const high = Math.min(height, SLOTS_HEIGHT);
    c.fillStyle = colours()["line-2"];
    c.fillRect(0, height - 1, width, 1);
    if (!slots || !logs) return;
    c.save();
    c.translate(0, height - high);
    paintSlots(c, { width, height: high }, slots, logs, index);
    c.restore();
    if (recomputes) paintTimes(c, { width, height: height - high }, times, width / capacityOf(logs, slots), countText);
  };
  const tipOf = (/** @type {Point} */ { x }, /** @type {Size} */ { width }) => {
    const position = logs && slots ? Math.floor(x / (width / capacityOf(logs, slots))) : -1;
    if (times[position] === undefined) return null;
    return t("race.times.one", { position, token: labelOf(sequence.token_bytes[position]), n: times[position] });
  };
  return html`<${Picture}
    player=${player}
    name=${recomputes ? "lane-slots again" : "lane-slots"}
    label=${countText ? `${label}; ${countText}` : label}
    paint=${paint}
    tipOf=${tipOf}
  />`;
}

/**
 * Number of slots of the longest possible reservation, so that all lanes have one scale.
 * @param {TraceLog[]} logs
 * @param {{reserved: number}} slots
 */
const capacityOf = (logs, slots) =>
  Math.max(...logs.map((log) => Number(log.header.engine.max_model_len ?? 0)), slots.reserved);

/**
 * Text of the number of times that each of the prompt's tokens was computed.
 * @param {number[]} times
 * @param {number} prompt tokens
 */
const timesText = (times, prompt) => t("race.times", { prompt, n: times[0], total: grouped(sum(times)) });

/** @param {number[]} values */
const sum = (values) => values.reduce((all, one) => all + one, 0);

/**
 * Paint a bar per position with the number of times it was computed. The first bar has full height at the end of the
 * race.
 * @param {CanvasRenderingContext2D} c
 * @param {Size} size of the area above the slots
 * @param {number[]} times
 * @param {number} slot px
 * @param {string} label label beside the bars, if it fits
 */
function paintTimes(c, { width, height }, times, slot, label) {
  const palette = colours();
  const maxCount = Math.max(times[0] ?? 0, race.numSteps.value, 1);
  c.fillStyle = alpha(palette.q, 0.45);
  times.forEach((count, position) => {
    const high = Math.max(1, (height - 2) * (count / maxCount));
    c.fillRect(position * slot, height - high, Math.max(slot - (slot >= GAPS_FROM ? 1 : 0), 0.75), high);
  });
  const end = times.length * slot + 6;
  if (end + c.measureText(label).width > width) return;
  c.fillStyle = palette["ink-2"];
  c.textAlign = "left";
  c.textBaseline = "alphabetic";
  c.fillText(label, end, height - 5);
}

/**
 * @param {CanvasRenderingContext2D} c @param {Size} size
 * @param {{reserved: number, read: number, computed: number}} slots
 * @param {TraceLog[]} logs
 * @param {number} index of the lane
 */
function paintSlots(c, { width, height }, slots, logs, index) {
  const palette = colours();
  const size = width / capacityOf(logs, slots);
  const gap = size >= GAPS_FROM ? 1 : 0;
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
  for (let slot = 0; block >= FRAMES_FROM && slot < slots.reserved; slot += blockSize)
    c.strokeRect(Math.round(slot * size) + 0.5, 0.5, Math.max(1, Math.round(block) - 2), height - 3);
}
