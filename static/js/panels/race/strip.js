// A lane's slots as small squares: computed in this step, read from the cache, reserved and empty.

import { prepare, usePainter } from "../../kit/canvas.js";
import { alpha, colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { wastePattern } from "../../kit/texture.js";
import { laneAt } from "../../runs/race.js";
import { t } from "../../tell/words.js";
import { race } from "./model.js";

const ROOM_FOR_GAPS = 3; // px a slot from which squares stand apart

export function Legend() {
  return html`<ul class="race-keys">
    ${["computed", "read", "reserved"].map((name) => html`<li><i class=${`key race-key ${name}`}></i>${t(`race.legend.${name}`)}</li>`)}
  </ul>`;
}

export function LaneStrip({ name, index, lane }) {
  const ref = usePainter(
    () => [race.logs.value, race.numSteps.value, race.shownStep.value, themeVersion.value],
    (box, { width, height }) => paint(box.querySelector("canvas"), width, height, index),
  );
  const slots = lane?.slots;
  const values = slots && {
    name,
    read: slots.read,
    computed: slots.computed,
    empty: slots.reserved - slots.read - slots.computed,
  };
  return html`<div class="race-strip" ref=${ref} role="img" aria-label=${values ? t("race.strip", values) : name}><canvas aria-hidden="true"></canvas></div>`;
}

function paint(canvas, width, height, index) {
  const c = prepare(canvas, width, height);
  const palette = colours();
  const all = race.logs.value;
  c.fillStyle = palette["line-2"];
  c.fillRect(0, height - 1, width, 1);
  if (!all) return;
  const { slots } = laneAt(all[index], race.shownStep.value);
  if (!slots) return;
  // every lane on one scale: as many slots as the longest reservation can have
  const capacity = Math.max(...all.map((log) => log.header.engine.max_model_len ?? 0), slots.reserved);
  const size = width / capacity;
  const gap = size >= ROOM_FOR_GAPS ? 1 : 0;
  const blockSize = all[index].header.engine.block_size;
  const filled = slots.read + slots.computed;
  const run = (from, to, style) => {
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
  for (let from = 0; from < slots.reserved; from += blockSize)
    if (blockSize * size >= 5)
      c.strokeRect(Math.round(from * size) + 0.5, 0.5, Math.max(1, Math.round(blockSize * size) - 2), height - 3);
}
