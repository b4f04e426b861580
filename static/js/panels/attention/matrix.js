// The causal matrix: one row for each query of the shown sequence, in the chosen layer and head. Rows grow by steps and
// stay.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { canFetch, rowOf, rowSources } from "../../core/attention.js";
import { labelText } from "../../core/labels.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { alpha, colours, themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { wastePattern } from "../../kit/texture.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { wantLayer } from "../../net/commands.js";
import { phase, phasesNow } from "../../state/moment.js";
import { hovered, pointed, select, sequenceView } from "../../state/store.js";
import { probabilityText, t } from "../../tell/words.js";
import { Proof, worstCell } from "./proof.js";
import { cellsFor, RowImage } from "./rows.js";

const FILL_MS = 7; // of a frame, for reading rows
const FETCHED_AT_ONCE = 128;
const LABELLED = 9.5; // px of a cell from which the diagonal carries the tokens

const image = new RowImage();
const filling = signal(0); // grows while rows are still being read
const cursor = signal(null); // {query, key}: where the keyboard is
// {of, query, key, weight, sum}: the most that a row of the image `of` gives to a key after its query; null = causal
const later = signal(null);

/** Who computed each row; read again only when the stage is another. */
export const sources = computed(() => (sequenceView.value ? rowSources(sequenceView.value) : []));

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
  const at = inside(cursor.value, n);
  const notCausal = now && later.value?.of === imageOf(now) ? inside(later.value, n) : null;
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
        onClick=${(event) => choose(cellAt(event))}
        onKeyDown=${move}
      >
        <canvas aria-hidden="true"></canvas>
        ${n ? null : html`<p class="hint">${t("matrix.empty")}</p>`}
      </div>
      ${n ? html`<${Proof} />` : null}
    </div>
    <p class="visually-hidden" aria-live="polite">${at ? cellText(now, at) : ""}</p>
    <p class="panel-foot">${
      notCausal
        ? html`<${NotCausal} now=${now} found=${notCausal}
      />`
        : t(now && leftOut(now) ? "matrix.omitted" : "matrix.axes")
    }</p>
  </section>`;
}

/** Rows that read later keys are no attention of this model: the worst weight, to be held and followed. */
function NotCausal({ now, found }) {
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

/** The most that one of the first `count` rows gives to a later key. */
function worstLater(count) {
  let found = null;
  for (const [query, { position: key, weight, sum }] of image.rows.later)
    if (query < count && key < count && weight > (found?.weight ?? 0))
      found = { of: image.key, query, key, weight, sum };
  return found;
}

/** Whether rows of this layer were computed but did not fit their capture. */
function leftOut(now) {
  const first = sources.value[0];
  return (
    Boolean(first) && now.log.layer(first.record, now.layer) !== null && !rowOf(now.log, first, now.layer, now.head)
  );
}

/** Which image of rows the stage asks for. */
const imageOf = (now) => `${now.log.id}/${now.seq.seq_id}/${now.layer}/${now.head}`;

const name = (source) => `${source.record}/${source.seq_id}/${source.position}`;

/**
 * Put rows that the image does not have yet into it, newest first, for a few milliseconds; ask for those that can be
 * fetched. Whether every row that is here has been put in.
 */
function fill(now) {
  image.reset(imageOf(now), themeVersion.peek());
  const until = performance.now() + FILL_MS;
  let asked = 0;
  const from = sources.peek();
  for (let query = from.length - 1; query >= 0; query--) {
    const source = from[query];
    if (!source || image.rows.sources[query] === name(source)) continue;
    if (canFetch(now.log, source, now.layer)) {
      if (asked < FETCHED_AT_ONCE) wantLayer(source.record, now.layer);
      asked += 1;
      continue;
    }
    const row = rowOf(now.log, source, now.layer, now.head);
    if (row) image.put(query, name(source), row);
    if (performance.now() > until) {
      filling.value = filling.peek() + 1;
      return false;
    }
  }
  return true;
}

const geometry = (width, height, count) => ({
  cell: Math.floor((Math.min(width, height) / cellsFor(count)) * 64) / 64,
});

function paint(canvas, width, height) {
  const c = prepare(canvas, width, height);
  const now = sequenceView.value;
  if (!now?.numFilled) return;
  const filled = fill(now);
  const found = worstLater(phasesNow().attend > 0 || !now.entry ? now.numFilled : now.entry.start);
  if (["of", "query", "weight"].some((part) => found?.[part] !== later.peek()?.[part])) later.value = found;
  const palette = colours();
  const count = now.numFilled;
  const { cell } = geometry(width, height, count);
  const from = sources.peek();
  const newest = now.entry ? now.entry.start : count; // rows from here on were computed in the record that is drawn
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
  if (now.query !== null) paintFlight(c, palette, now, cell);
  if (cell >= LABELLED) paintLabels(c, palette, now, cell);
  paintPointed(c, palette, count, cell);
}

/** The triangle that causality leaves. */
function paintGround(c, palette, count, cell) {
  c.fillStyle = palette["line-2"];
  c.globalAlpha = 0.45;
  c.beginPath();
  c.moveTo(0, 0);
  for (let query = 0; query < count; query++) {
    c.lineTo((query + 1) * cell, query * cell);
    c.lineTo((query + 1) * cell, (query + 1) * cell);
  }
  c.lineTo(0, count * cell);
  c.fill();
  c.globalAlpha = 1;
}

/** Rows that the log does not have. */
function paintUnknown(c, palette, from, now, cell) {
  for (let query = 0; query < from.length; query++) {
    if (from[query] && (image.rows.sources[query] === name(from[query]) || canFetch(now.log, from[query], now.layer)))
      continue;
    c.fillStyle = wastePattern(c, palette.line);
    c.fillRect(0, query * cell, (query + 1) * cell, cell);
  }
}

/** The query in flight, and the rows that this record computed. */
function paintFlight(c, palette, now, cell) {
  outline(c, 0, now.query * cell, (now.query + 1) * cell, cell, palette.q, Math.min(1.5, Math.max(1, cell / 4)));
  c.fillStyle = palette.q;
  c.fillRect(-3, now.entry.start * cell, 2, (now.numFilled - now.entry.start) * cell);
}

/** Each token once, at the diagonal: where its row ends and its column begins. */
function paintLabels(c, palette, now, cell) {
  c.font = `${Math.max(10, Math.min(13, Math.floor(cell) - 1))}px ${getComputedStyle(document.body).fontFamily}`;
  c.textBaseline = "middle";
  for (let position = 0; position < now.numFilled; position++) {
    c.fillStyle = position < now.seq.num_prompt_tokens ? palette.prompt : palette.generated;
    c.fillText(labelText(now.labels[position]), (position + 1) * cell + 4, (position + 0.5) * cell);
  }
}

function paintPointed(c, palette, count, cell) {
  const target = pointed.value;
  const key = target?.position;
  if (key === undefined || key >= count) {
    // nothing of this matrix is pointed at
  } else if (target.query !== undefined && target.query < count) {
    c.fillStyle = alpha(palette.focus, 0.16);
    c.fillRect(0, target.query * cell, (key + 1) * cell, cell);
    c.fillRect(key * cell, target.query * cell, cell, (count - target.query) * cell);
    outline(c, key * cell, target.query * cell, cell, cell, palette.focus, 2);
  } else outline(c, key * cell, key * cell, cell, (count - key) * cell, alpha(palette.focus, 0.9), 1.5);
  const worst = worstCell.value;
  if (worst && worst.query < count) {
    c.strokeStyle = palette.ink;
    c.lineWidth = 1.5;
    c.beginPath();
    c.arc((worst.key + 0.5) * cell, (worst.query + 0.5) * cell, Math.max(5, cell * 0.75), 0, 2 * Math.PI);
    c.stroke();
  }
}

function outline(c, x, y, width, height, colour, line) {
  c.strokeStyle = colour;
  c.lineWidth = line;
  c.strokeRect(x - 0.5, y - 0.5, Math.max(2, width), Math.max(2, height));
}

// ── Pointing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function cellAt(event) {
  const now = sequenceView.value;
  if (!now?.numFilled) return null;
  const box = event.currentTarget.getBoundingClientRect();
  const { cell } = geometry(box.width, box.height, now.numFilled);
  const key = Math.floor((event.clientX - box.left) / cell);
  const query = Math.floor((event.clientY - box.top) / cell);
  return query >= 0 && query < now.numFilled && key >= 0 && key <= lastKey(now, query) ? { key, query } : null;
}

/** The last key of a row: the query's own, or a later one where the capture says that it was read. */
function lastKey(now, query) {
  const row = rowOf(now.log, sources.value[query], now.layer, now.head);
  return row ? Math.min(now.numFilled, row.keyStart + row.weights.length) - 1 : query;
}

const choose = (cell) => cell && select({ query: cell.query, position: cell.key });

function leave() {
  hovered.value = null;
  hideTip();
}

function hover(event) {
  const cell = cellAt(event);
  if (!cell) return leave();
  hovered.value = { query: cell.query, position: cell.key };
  tipAt(event.clientX, event.clientY, cellLines(sequenceView.value, cell));
}

function weightAt(now, { query, key }) {
  const row = rowOf(now.log, sources.value[query], now.layer, now.head);
  return row?.weights[key - row.keyStart];
}

function cellLines(now, cell) {
  const weight = weightAt(now, cell);
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

const cellText = (now, cell) => cellLines(now, cell).filter(Boolean).join("; ");

/** A cell, if it is one of the first `count` rows: an earlier record, or another run, has fewer than there were. */
const inside = (cell, count) => (cell && Math.max(cell.query, cell.key) < count ? cell : null);

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Arrow keys walk over the rows, Enter holds the weight under the cursor. */
function move(event) {
  const now = sequenceView.value;
  if (!now?.numFilled) return;
  const before = inside(cursor.value, now.numFilled);
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
  cursor.value = { query, key };
  hovered.value = { query, position: key };
  const box = event.currentTarget.getBoundingClientRect();
  const { cell } = geometry(box.width, box.height, now.numFilled);
  tipAt(box.left + (key + 0.5) * cell, box.top + query * cell, cellLines(now, cursor.value));
}
