// The causal matrix: one row for each query so far of the shown sequence, in the chosen layer and head.

import { prepare, usePainter } from "../draw/canvas.js";
import { alpha, colours, sequentialAt, themeVersion } from "../draw/colour.js";
import { wastePattern } from "../draw/texture.js";
import { probabilityText, t } from "../i18n/index.js";
import { hovered, pointed, select, stage } from "../model/store.js";
import { labelText } from "../trace/labels.js";
import { attentionRow } from "../trace/stage.js";
import { html } from "./html.js";
import { Fidelity, hideTip, tipAt } from "./words.js";

const rowCache = new Map(); // row of a query: it never changes once it is there

export function Matrix() {
  const ref = usePainter(
    () => [stage.value, pointed.value, themeVersion.value],
    (box) => paint(box.querySelector("canvas"), box.clientWidth, box.clientHeight),
  );
  const now = stage.value;
  const n = now?.numFilled ?? 0;
  return html`<section class="panel matrix">
    <h3 class="panel-title">${t("matrix.title")} <${Fidelity} kind="captured" /></h3>
    <div
      class="panel-canvas"
      ref=${ref}
      role="img"
      aria-label=${t("matrix.label", { layer: now?.layer ?? 0, head: now?.head ?? 0, n })}
      onPointerMove=${hover}
      onPointerLeave=${() => ((hovered.value = null), hideTip())}
      onClick=${(event) => cellAt(event) && select({ position: cellAt(event).key })}
    >
      <canvas aria-hidden="true"></canvas>
      ${n ? null : html`<p class="hint">${t("matrix.empty")}</p>`}
    </div>
    <p class="panel-foot">${t(now && leftOut(now) ? "matrix.omitted" : "matrix.axes")}</p>
  </section>`;
}

/** Whether rows of this layer were computed but did not fit their capture. */
function leftOut(now) {
  const record = now.log.computedIn(now.seq.seq_id, 0, now.index);
  return record >= 0 && now.log.layer(record, now.layer) !== null && !rowOf(now, 0);
}

/** The row of the query at `position`, wherever in the log it was computed; null when it is not known. */
function rowOf(now, position) {
  const record = now.log.computedIn(now.seq.seq_id, position, now.index);
  if (record < 0) return null;
  const key = `${now.log.header.created}/${record}/${now.seq.seq_id}/${position}/${now.layer}/${now.head}`;
  if (rowCache.has(key)) return rowCache.get(key);
  const row = attentionRow(now.log, record, now.seq.seq_id, now.layer, now.head, position);
  if (row) rowCache.set(key, row);
  if (rowCache.size > 4096) rowCache.delete(rowCache.keys().next().value);
  return row;
}

function geometry(width, height, count) {
  const side = Math.min(width, height);
  const shown = Math.max(count, 8);
  return { left: 0, cell: side / shown, side };
}

function paint(canvas, width, height) {
  const c = prepare(canvas, width, height);
  const now = stage.value;
  const palette = colours();
  if (!now?.numFilled) return;
  const count = now.numFilled;
  const { left, cell } = geometry(width, height, count);
  const gap = cell > 5 ? 1 : 0;
  for (let query = 0; query < count; query++) {
    const row = rowOf(now, query);
    if (!row) {
      c.fillStyle = wastePattern(c, palette.line);
      c.fillRect(left, query * cell, (query + 1) * cell, cell);
      continue;
    }
    for (let i = 0; i < row.weights.length; i++) {
      c.fillStyle = sequentialAt(palette.sequential, row.weights[i] / (row.max || 1));
      c.fillRect(left + (row.keyStart + i) * cell, query * cell, cell - gap, cell - gap);
    }
  }
  if (now.query !== null) outline(c, left, now.query * cell, (now.query + 1) * cell, cell, palette.q);
  const key = pointed.value?.position;
  if (key !== undefined && key < count) outline(c, left + key * cell, key * cell, cell, (count - key) * cell, alpha(palette.focus, 0.9));
}

function outline(c, x, y, width, height, colour) {
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.strokeRect(x - 0.5, y - 0.5, width, height);
}

function cellAt(event) {
  const now = stage.value;
  if (!now?.numFilled) return null;
  const box = event.currentTarget.getBoundingClientRect();
  const { left, cell } = geometry(box.width, box.height, now.numFilled);
  const key = Math.floor((event.clientX - box.left - left) / cell);
  const query = Math.floor((event.clientY - box.top) / cell);
  return key >= 0 && key <= query && query < now.numFilled ? { key, query } : null;
}

function hover(event) {
  const cell = cellAt(event);
  if (!cell) return (hovered.value = null), hideTip();
  const now = stage.value;
  hovered.value = { position: cell.key };
  const row = rowOf(now, cell.query);
  const weight = row ? row.weights[cell.key - row.keyStart] : undefined;
  const name = (p) => `${labelText(now.labels[p])} @${p}`;
  tipAt(event.clientX, event.clientY, [
    t("matrix.cell", { query: name(cell.query), key: name(cell.key), weight: weight === undefined ? "–" : probabilityText(weight) }),
  ]);
}
