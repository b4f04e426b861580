// Animation of writes: the K and V that a record wrote move from their columns in the token row to their slots in the
// pool.

import { computed } from "../../vendor/signals/signals.js";
import { slotOf } from "../core/metrics.js";
import { anchorOf, writeProgress } from "../kit/anchors.js";
import { prepare, roundRect, usePainter } from "../kit/canvas.js";
import { alpha, colours, themeVersion } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { phase, phasesNow } from "../state/playhead.js";
import { sequenceView, showsEarlierRecord } from "../state/store.js";

/** @import {Box} from "../kit/anchors.js" */

const MAX_POSITIONS = 48; // of a longer prompt, only the first are animated

/** Positions of the sequence on stage that the drawn record wrote: [position, block, slot], in order. */
const written = computed(() => {
  const now = sequenceView.value;
  if (!now?.entry || showsEarlierRecord.value) return [];
  const { start, token_ids: tokens } = now.entry;
  return tokens.slice(0, MAX_POSITIONS).flatMap((_, i) => {
    const place = slotOf(now.table, now.blockSize, start + i);
    return place ? [/** @type {[number, number, number]} */ ([start + i, place.block, place.offset])] : [];
  });
});

export function WriteAnimation() {
  const ref = usePainter(() => [written.value, phase("write"), themeVersion.value], paint);
  return html`<div class="flights" ref=${ref} aria-hidden="true"><canvas></canvas></div>`;
}

/** @param {HTMLElement} box @param {import("../kit/canvas.js").Size} size */
function paint(box, { width, height }) {
  const canvas = /** @type {HTMLCanvasElement} */ (box.querySelector("canvas"));
  const { write } = phasesNow();
  const moving = write > 0 && write < 1 ? written.peek() : [];
  canvas.hidden = !moving.length;
  if (!moving.length) return;
  const c = prepare(canvas, width, height);
  const palette = colours();
  moving.forEach(([position, block, offset], i) => {
    const slot = anchorOf("slot", block, offset);
    const p = writeProgress(i, moving.length, write);
    if (!slot || p <= 0 || p >= 1) return;
    for (const kind of /** @type {const} */ (["k", "v"])) {
      const from = anchorOf("vector", kind, position);
      const half = slot.width / 2; // K goes to the left half of its slot, V to the right
      if (from) paintOne(c, from, { ...slot, x: slot.x + (kind === "k" ? 0 : half), width: half }, p, palette[kind]);
    }
  });
}

/**
 * Draw one moving vector. Its size changes from that of its start to that of its target.
 * @param {CanvasRenderingContext2D} c
 * @param {Box} from
 * @param {Box} to
 * @param {number} p
 * @param {string} colour
 */
function paintOne(c, from, to, p, colour) {
  const t = p * p * (3 - 2 * p);
  const mix = (/** @type {keyof Box} */ name) => from[name] + (to[name] - from[name]) * t;
  roundRect(c, mix("x"), mix("y"), mix("width"), mix("height"), 3);
  c.fillStyle = alpha(colour, 0.6);
  c.fill();
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.stroke();
}
