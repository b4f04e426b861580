// Flights from the token row into the pool: the K and V written by a record move from their columns to their slots.

import { computed } from "../../vendor/signals/signals.js";
import { slotOf } from "../core/metrics.js";
import { anchorOf, writeProgress } from "../kit/anchors.js";
import { prepare, roundRect, usePainter } from "../kit/canvas.js";
import { alpha, colours, themeVersion } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { phase, phasesNow } from "../state/playhead.js";
import { sequenceView, showsEarlierRecord } from "../state/store.js";

/** @import {Box} from "../kit/anchors.js" */

const MAX = 48; // positions; the first ones of a longer prompt suffice

/** Positions of the sequence on stage that the drawn record wrote: [position, block, slot], in order. */
const written = computed(() => {
  const now = sequenceView.value;
  if (!now?.entry || showsEarlierRecord.value) return [];
  const { start, token_ids: tokens } = now.entry;
  return tokens.slice(0, MAX).flatMap((_, i) => {
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
  const under = write > 0 && write < 1 ? written.peek() : [];
  canvas.hidden = !under.length;
  if (!under.length) return;
  const c = prepare(canvas, width, height);
  const palette = colours();
  under.forEach(([position, block, offset], i) => {
    const slot = anchorOf("slot", block, offset);
    const p = writeProgress(i, under.length, write);
    if (!slot || p <= 0 || p >= 1) return;
    for (const kind of /** @type {const} */ (["k", "v"])) {
      const from = anchorOf("vector", kind, position);
      const half = slot.width / 2; // K lands on the left of its slot, V on the right
      if (from) paintOne(c, from, { ...slot, x: slot.x + (kind === "k" ? 0 : half), width: half }, p, palette[kind]);
    }
  });
}

/**
 * Draw one vector in flight; its size changes from that of its start to that of its target.
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
