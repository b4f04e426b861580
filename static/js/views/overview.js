// Every layer and head at once: the attention row of the query in flight, as a small heat line each. Choose one.

import { prepare, usePainter } from "../draw/canvas.js";
import { colours, sequentialAt, themeVersion } from "../draw/colour.js";
import { t } from "../i18n/index.js";
import { settings } from "../model/settings.js";
import { captureVersion, head, layer, log, stage } from "../model/store.js";
import { attentionRow } from "../trace/stage.js";
import { html } from "./html.js";
import { Fidelity } from "./words.js";

export function Overview() {
  const ref = usePainter(
    () => [stage.value, layer.value, head.value, themeVersion.value, captureVersion.value],
    (box) => paint(box.querySelector("canvas"), box.clientWidth, box.clientHeight),
  );
  const model = log.value?.header.model;
  const has = Boolean(stage.value?.entry);
  const label = t("overview.cell", { layer: layer.value, head: head.value });
  return html`<section class="panel overview">
    <h3 class="panel-title">${t("overview.title")} <${Fidelity} kind="captured" /></h3>
    <div
      class="panel-canvas"
      ref=${ref}
      role="slider"
      tabindex="0"
      data-arrows
      aria-label=${t("overview.title")}
      aria-valuenow=${model ? layer.value * model.num_heads + head.value : 0}
      aria-valuemin="0"
      aria-valuemax=${model ? model.num_layers * model.num_heads - 1 : 0}
      aria-valuetext=${label}
      onClick=${choose}
      onKeyDown=${move}
    >
      <canvas aria-hidden="true"></canvas>
      ${has ? null : html`<p class="hint">${t("overview.empty")}</p>`}
    </div>
    <p class="panel-foot">${t("overview.axes")}</p>
  </section>`;
}

function paint(canvas, width, height) {
  const c = prepare(canvas, width, height);
  const now = stage.value;
  const model = log.value?.header.model;
  const palette = colours();
  if (!now?.entry || !model) return;
  const w = width / model.num_heads;
  const h = height / model.num_layers;
  for (let l = 0; l < model.num_layers; l++) {
    for (let q = 0; q < model.num_heads; q++) {
      const row = attentionRow(now.log, now.index, now.seq.seq_id, l, q, now.query);
      const [x, y] = [q * w + 1.5, l * h + 1.5];
      c.fillStyle = palette.zero;
      c.fillRect(x, y, w - 3, h - 3);
      if (row) paintRow(c, palette, row, now.query + 1, x, y, w - 3, h - 3);
      if (l === now.layer && q === now.head) {
        c.strokeStyle = palette.q;
        c.lineWidth = 2;
        c.strokeRect(x - 0.5, y - 0.5, w - 2, h - 2);
      }
    }
  }
}

function paintRow(c, palette, row, keys, x, y, width, height) {
  const cell = width / keys;
  row.weights.forEach((weight, i) => {
    c.fillStyle = sequentialAt(palette.sequential, weight / (row.max || 1));
    c.fillRect(x + (row.keyStart + i) * cell, y, Math.max(cell, 0.75), height);
  });
}

function choose(event) {
  const model = log.value?.header.model;
  if (!model) return;
  const box = event.currentTarget.getBoundingClientRect();
  settings.head.value = Math.min(model.num_heads - 1, Math.floor(((event.clientX - box.left) / box.width) * model.num_heads));
  settings.layer.value = Math.min(model.num_layers - 1, Math.floor(((event.clientY - box.top) / box.height) * model.num_layers));
}

function move(event) {
  const model = log.value?.header.model;
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
  if (down === undefined || !model) return;
  event.preventDefault();
  settings.layer.value = Math.max(0, Math.min(model.num_layers - 1, layer.value + down));
  settings.head.value = Math.max(0, Math.min(model.num_heads - 1, head.value + right));
}
