// The causal matrix: one row for each query of the shown sequence, for the chosen layer and head. Rows are appended
// step by step and never change.

import { signal } from "../../../vendor/signals/signals.js";
import { rowOf } from "../../core/attention.js";
import { labelText } from "../../core/labels.js";
import { probabilityText, t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { phase, phasesNow } from "../../state/stage_playhead.js";
import { hovered, pointed, select, sequenceView } from "../../state/store.js";
import { fill, filling, footOf, image, imageOf, largestNonCausal, nonCausal, sources } from "./matrix_image.js";
import { paintCurrentQuery, paintGround, paintLabels, paintPointed, paintUnknown } from "./matrix_paint.js";
import { Proof, ProofFoot, worstCell } from "./proof.js";
import { cellsFor } from "./rows.js";

/** @import {View} from "../../state/store.js" */

/** @typedef {{query: number, key: number}} Cell */

const LABEL_FROM = 9.5; // minimum px of a cell for tokens along the diagonal

const cursor = signal(/** @type {Cell | null} */ (null)); // keyboard cursor
/** @param {MouseEvent} event */
const click = (event) => choose(cellAt(event));

export function Matrix() {
  const ref = usePainter(
    () => [
      sequenceView.value,
      pointed.value,
      worstCell.value,
      cursor.value,
      themeVersion.value,
      filling.value,
      phase("attend"),
    ],
    (box, { width, height }) => paint(box.querySelector("canvas"), width, height),
  );
  const now = sequenceView.value;
  const n = now?.numFilled ?? 0;
  const underCursor = withinRows(cursor.value, n);
  const notCausal = now && nonCausal.value?.of === imageOf(now) ? withinRows(nonCausal.value, n) : null;
  return html`<section class="panel matrix">
    <h3 class="panel-title">${t("matrix.title")} <${Fidelity} kind="captured" /></h3>
    <div class=${notCausal ? "matrix-room whole" : "matrix-room"}>
      <div
        class="panel-canvas"
        ref=${ref}
        role="application"
        tabindex="0"
        data-arrows
        aria-label=${t("matrix.label", { layer: now?.layer ?? 0, head: now?.head ?? 0, n })}
        onPointerMove=${hover}
        onPointerLeave=${leave}
        onBlur=${() => ((cursor.value = null), leave())}
        onClick=${click}
        onKeyDown=${move}
      >
        <canvas aria-hidden="true"></canvas>
        ${n ? null : html`<p class="hint">${t("matrix.empty")}</p>`}
      </div>
      ${n ? html`<${Proof} />` : null}
    </div>
    <p class="visually-hidden" aria-live="polite">${now && underCursor ? cellText(now, underCursor) : ""}</p>
    <p class="panel-foot">${
      notCausal
        ? html`<${NotCausal} now=${now} found=${notCausal}
      />`
        : html`<${ProofFoot} else=${t(footOf(now))} />`
    }</p>
  </section>`;
}

/**
 * Warning for rows that read later keys, which is not causal. The worst cell can be pinned and followed.
 * @param {{now: View, found: import("./matrix_image.js").NonCausalWeight}} props
 */
function NotCausal({ now, found }) {
  /** @param {number} p */
  const token = (p) => t("matrix.token", { token: labelText(now.labels[p]), position: p });
  const values = {
    query: token(found.query),
    key: token(found.key),
    weight: probabilityText(found.weight),
    sum: probabilityText(found.sum),
    layer: now.layer,
    head: now.head,
  };
  return html`<button class="not-causal num" title=${t("matrix.later_why", values)}
    onClick=${() => choose(found)}>≠ ${t("matrix.later", {
      ...values,
      query: labelText(now.labels[found.query]),
      key: labelText(now.labels[found.key]),
    })}</button>`;
}

/** @type {(width: number, height: number, count: number) => {cell: number}} */
const geometry = (width, height, count) => ({
  cell: Math.floor((Math.min(width, height) / cellsFor(count)) * 64) / 64,
});

/** @param {HTMLCanvasElement | null} canvas @param {number} width @param {number} height */
function paint(canvas, width, height) {
  if (!canvas) return;
  const c = prepare(canvas, width, height);
  const now = sequenceView.value;
  if (!now?.numFilled) return;
  const filled = fill(now);
  const found = largestNonCausal(phasesNow().attend > 0 || !now.entry ? now.numFilled : now.entry.start);
  if (/** @type {const} */ (["of", "query", "weight"]).some((part) => found?.[part] !== nonCausal.peek()?.[part]))
    nonCausal.value = found;
  const palette = colours();
  const count = now.numFilled;
  const { cell } = geometry(width, height, count);
  const from = sources.peek();
  const newest = now.entry ? now.entry.start : count; // rows from here on were computed in the shown record
  const shown = phasesNow().attend;
  paintGround(c, palette, count, cell);
  image.draw(c, 0, newest, cell, globalThis.devicePixelRatio || 1);
  if (newest < count && shown > 0) {
    c.save();
    c.beginPath();
    c.rect(0, newest * cell, count * cell * shown, (count - newest) * cell);
    c.clip();
    image.draw(c, newest, count, cell, globalThis.devicePixelRatio || 1);
    c.restore();
  }
  if (filled) paintUnknown(c, palette, from, now, cell);
  if (now.query !== null) paintCurrentQuery(c, palette, now, cell);
  if (cell >= LABEL_FROM) paintLabels(c, palette, now, cell);
  paintPointed(c, palette, count, cell);
}

// ── Pointing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** @param {MouseEvent} event @returns {Cell | null} */
function cellAt(event) {
  const now = sequenceView.value;
  if (!now?.numFilled) return null;
  const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
  const { cell } = geometry(box.width, box.height, now.numFilled);
  const key = Math.floor((event.clientX - box.left) / cell);
  const query = Math.floor((event.clientY - box.top) / cell);
  return query >= 0 && query < now.numFilled && key >= 0 && key <= lastKey(now, query) ? { key, query } : null;
}

/**
 * Last key of a row: the query's own position, or a later one if the capture has a weight for it.
 * @param {View} now @param {number} query
 */
function lastKey(now, query) {
  const row = rowOf(now.log, sources.value[query], now.layer, now.head);
  return row ? Math.min(now.numFilled, row.keyStart + row.weights.length) - 1 : query;
}

/** @param {Cell | null} cell */
const choose = (cell) => cell && select({ query: cell.query, position: cell.key });

function leave() {
  hovered.value = null;
  hideTip();
}

/** @param {PointerEvent} event */
function hover(event) {
  const cell = cellAt(event);
  if (!cell || !sequenceView.value) return leave();
  hovered.value = { query: cell.query, position: cell.key };
  tipAt(event.clientX, event.clientY, cellLines(sequenceView.value, cell));
}

/** @param {View} now @param {Cell} cell */
function weightAt(now, { query, key }) {
  const row = rowOf(now.log, sources.value[query], now.layer, now.head);
  return row?.weights[key - row.keyStart];
}

/** @param {View} now @param {Cell} cell */
function cellLines(now, cell) {
  const weight = weightAt(now, cell);
  /** @param {number} p */
  const token = (p) => t("matrix.token", { token: labelText(now.labels[p]), position: p });
  const source = sources.value[cell.query];
  return [
    t("matrix.cell", { query: token(cell.query), key: token(cell.key) }),
    cell.key > cell.query ? t("matrix.later_cell") : "",
    weight === undefined
      ? t("matrix.unknown")
      : t("matrix.weight", { weight: probabilityText(weight), layer: now.layer, head: now.head }),
    source
      ? t(source.seq_id === now.seq.seq_id ? "matrix.computed" : "matrix.computed_by", {
          record: source.record + 1,
          name: t("sequence.name", { id: source.seq_id }),
        })
      : "",
  ];
}

/** @param {View} now @param {Cell} cell */
const cellText = (now, cell) => cellLines(now, cell).filter(Boolean).join("; ");

/**
 * Return `cell`, or null if it is not in the first `count` rows. Earlier records and other runs may have fewer rows.
 * @template {Cell} T
 * @param {T | null} cell @param {number} count
 */
const withinRows = (cell, count) => (cell && Math.max(cell.query, cell.key) < count ? cell : null);

/** @type {Record<string, [number, number]>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Move the cursor with the arrow keys; pin the weight under it with Enter. @param {KeyboardEvent} event */
function move(event) {
  const now = sequenceView.value;
  if (!now?.numFilled) return;
  const before = withinRows(cursor.value, now.numFilled);
  const at = before ?? { query: now.numFilled - 1, key: now.numFilled - 1 };
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    return choose(at);
  }
  if (!(event.key in MOVES)) return;
  event.preventDefault();
  const [down, right] = before ? MOVES[event.key] : [0, 0];
  const query = Math.max(0, Math.min(now.numFilled - 1, at.query + down));
  const key = Math.max(0, Math.min(lastKey(now, query), at.key + right));
  const target = { query, key };
  cursor.value = target;
  hovered.value = { query, position: key };
  const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
  const { cell } = geometry(box.width, box.height, now.numFilled);
  tipAt(box.left + (key + 0.5) * cell, box.top + query * cell, cellLines(now, target));
}
