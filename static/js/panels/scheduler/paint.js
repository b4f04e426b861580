// Painting the lanes: budgets above, a row for each sequence, marks of what happened, the record shown.

import { marksIn, runFrom } from "../../core/lanes.js";
import { alpha, colours, niceCeiling } from "../../kit/colour.js";
import { sequencePattern, wastePattern } from "../../kit/texture.js";
import { grouped, t } from "../../tell/words.js";
import { AXIS, budgetScale, GUTTER, labelEvery } from "./geometry.js";

const FONT = '12px system-ui, "Noto Sans CJK SC", sans-serif';

/** Paint the window of `view` (its scroll position and size) of the plane. */
export function paintLanes(c, { lanes, layout, view, limits, shown, shownSeq, selected }) {
  const palette = colours();
  const first = Math.max(0, Math.floor(view.left / layout.cell));
  const last = Math.min(lanes.length - 1, Math.ceil((view.left + view.width - GUTTER) / layout.cell));
  const at = {
    c,
    palette,
    lanes,
    layout,
    view,
    limits,
    shown,
    shownSeq,
    selected,
    first,
    last,
    x: (record) => layout.x(record) - view.left,
  };
  c.font = FONT;
  clipped(c, GUTTER, 0, view.width - GUTTER, view.height, () => paintShown(at));
  clipped(c, 0, layout.top, view.width, view.height - layout.top - AXIS, () => paintRows(at));
  clipped(c, 0, 0, view.width, layout.top, () => paintBudgets(at));
  paintAxis(at);
}

function clipped(c, x, y, width, height, paint) {
  c.save();
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
  paint();
  c.restore();
}

/** The column of the record shown. */
function paintShown({ c, palette, layout, view, shown, x }) {
  if (shown < 0) return;
  c.fillStyle = alpha(palette.focus, 0.14);
  c.fillRect(x(shown), 0, layout.cell, view.height);
  c.fillStyle = palette.focus;
  c.fillRect(x(shown), view.height - 2, layout.cell, 2);
}

// ── Budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function paintBudgets(at) {
  const { c, palette, lanes, layout, limits, shown } = at;
  const now = lanes.columns[shown];
  const { tokens, seqs, gap } = layout.budget;
  const tokenScale = budgetScale(lanes.most.tokens, limits.tokens, niceCeiling);
  bars(at, 0, tokens, tokenScale, limits.tokens, (column) => [
    [column.decode, palette.generated, null],
    [column.prefill, palette.prompt, null],
  ]);
  bars(at, tokens + gap, seqs, budgetScale(lanes.most.scheduled, limits.seqs, niceCeiling), limits.seqs, (column) => [
    [column.scheduled, palette["ink-3"], null],
  ]);
  c.fillStyle = palette.paper;
  c.fillRect(0, 0, GUTTER - 4, layout.top);
  const used = now && now.kind === "step" ? now.prefill + now.decode : null;
  label(
    c,
    palette,
    t("lanes.tokens"),
    used === null ? grouped(limits.tokens) : `${grouped(used)}/${grouped(limits.tokens)}`,
    0,
    tokens,
  );
  label(
    c,
    palette,
    t("lanes.seqs"),
    now && now.kind === "step" ? `${now.scheduled}/${limits.seqs}` : String(limits.seqs),
    tokens + gap,
    seqs,
  );
}

/** One row of bars above its base line; the limit as a dashed line where it is within reach. */
function bars({ c, palette, lanes, layout, view, first, last, x }, y, height, scale, limit, parts) {
  const gap = layout.cell > 4 ? 1 : 0;
  for (let i = first; i <= last; i++) {
    let base = y + height;
    for (const [value, colour] of parts(lanes.columns[i])) {
      if (!value) continue;
      const tall = Math.max(1, (value / scale) * (height - 1));
      c.fillStyle = colour;
      c.fillRect(x(i), base - tall, layout.cell - gap, tall);
      base -= tall;
    }
  }
  c.fillStyle = palette.line;
  c.fillRect(GUTTER, y + height - 1, view.width - GUTTER, 1);
  if (limit > scale) return;
  const top = Math.round(y + height - (limit / scale) * (height - 1)) + 0.5;
  c.strokeStyle = palette.fault;
  c.setLineDash([4, 3]);
  c.beginPath();
  c.moveTo(GUTTER, top);
  c.lineTo(view.width, top);
  c.stroke();
  c.setLineDash([]);
}

function label(c, palette, name, value, y, height) {
  c.textAlign = "left";
  c.fillStyle = palette["ink-3"];
  if (height >= 24) {
    c.fillText(name, 0, y + height - 14);
    c.fillStyle = palette.ink;
    c.fillText(value, 0, y + height - 2);
  } else {
    c.fillText(name, 0, y + height - 2);
    c.textAlign = "right";
    c.fillStyle = palette.ink;
    c.fillText(value, GUTTER - 6, y + height - 2);
  }
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

function paintRows(at) {
  const { c, palette, lanes, layout, view, shownSeq } = at;
  const from = Math.max(0, Math.floor(view.top / layout.row));
  const to = Math.min(lanes.lanes.length - 1, Math.floor((view.top + view.height - layout.top - AXIS) / layout.row));
  for (let i = from; i <= to; i++) {
    const lane = lanes.lanes[i];
    const y = layout.y(i) - view.top;
    clipped(c, GUTTER - 1, y, view.width - GUTTER + 1, layout.row, () => paintLane(at, lane, y));
    c.fillStyle = palette.sequences[lane.seq_id % 8];
    c.fillRect(0, y + layout.row / 2 - 5, 10, 10);
    c.fillStyle = sequencePattern(c, lane.seq_id, palette.paper, 0.9);
    c.fillRect(0, y + layout.row / 2 - 5, 10, 10);
    c.textAlign = "left";
    c.fillStyle = lane.seq_id === shownSeq ? palette.ink : palette["ink-2"];
    c.font = lane.seq_id === shownSeq ? `bold ${FONT}` : FONT;
    c.fillText(String(lane.seq_id), 15, y + layout.row / 2 + 4);
    c.font = FONT;
  }
}

function paintLane(at, lane, y) {
  const { c, layout, first, last, x } = at;
  for (let i = runFrom(lane, first); i < lane.runs.length && lane.runs[i].from <= last; i++) {
    const run = lane.runs[i];
    const [from, to] = [Math.max(run.from, first), Math.min(run.to, last)];
    paintRun(c, at.palette, run, x(from), y, (to - from + 1) * layout.cell, layout);
  }
  for (const mark of marksIn(lane, first, last))
    paintMark(c, at.palette, mark.mark, x(mark.record) + layout.cell / 2, y, layout.row, isSelected(at, mark));
}

const isSelected = ({ selected }, mark) => selected?.record === mark.record && selected?.op === mark.at;

/** A run of cells of one kind: colour, height and texture each tell the kinds apart. */
export function paintRun(c, palette, run, x, y, width, { cell, row }) {
  const [top, height] = [y + 2, row - 4];
  const middle = Math.round(y + row / 2);
  if (run.kind === "prefill") {
    c.fillStyle = palette.prompt;
    c.fillRect(x, top, width - gapOf(cell), height);
    if (run.again) {
      c.fillStyle = sequencePattern(c, 1, palette.paper, 0.75);
      c.fillRect(x, top, (width - gapOf(cell)) * (run.again / run.tokens), height);
    } else if (row >= 13 && c.measureText(String(run.tokens)).width <= width - 4) {
      c.fillStyle = palette.paper;
      c.textAlign = "center";
      c.fillText(String(run.tokens), x + (width - 1) / 2, middle + 4);
    }
  } else if (run.kind === "decode") {
    c.fillStyle = palette.generated;
    for (let left = x; left < x + width - 0.5; left += cell)
      c.fillRect(left, middle - height * 0.3, cell - gapOf(cell), height * 0.6);
  } else if (run.kind === "idle") {
    c.fillStyle = palette["ink-3"];
    c.fillRect(x, middle - 0.5, width, 1);
  } else if (run.kind === "waiting") {
    framed(c, sequencePattern(c, 0, palette["ink-3"], 1), palette.line, x, top + 1, width - gapOf(cell), height - 2);
  } else if (run.kind === "preempted") {
    framed(c, wastePattern(c, palette.fault), palette.fault, x, top, width, height);
  } else if (run.kind === "swapped") {
    framed(c, sequencePattern(c, 7, palette["ink-2"], 0.8), palette["ink-2"], x, top, width, height);
  }
}

const gapOf = (cell) => (cell > 4 ? 1 : 0);

function framed(c, pattern, colour, x, y, width, height) {
  c.fillStyle = pattern;
  c.fillRect(x, y, width, height);
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

/** What happened to the sequence in a record, above its cell. */
export function paintMark(c, palette, mark, x, y, row, selected = false) {
  const middle = Math.round(y + row / 2);
  const shape = SHAPES[mark];
  c.lineWidth = 1.5;
  shape(c, palette, x, middle);
  if (!selected) return;
  c.strokeStyle = palette.focus;
  c.lineWidth = 2;
  c.beginPath();
  c.arc(x, middle, 7, 0, 2 * Math.PI);
  c.stroke();
}

const SHAPES = {
  submit: (c, palette, x, y) =>
    polygon(c, palette.prompt, palette.paper, [
      [x - 3, y - 5],
      [x + 4, y],
      [x - 3, y + 5],
    ]),
  fork: (c, palette, x, y) =>
    polygon(c, palette.generated, palette.paper, [
      [x - 3, y - 5],
      [x + 4, y],
      [x - 3, y + 5],
    ]),
  preempt: (c, palette, x, y) =>
    polygon(c, palette.fault, palette.paper, [
      [x - 5, y - 4],
      [x + 5, y - 4],
      [x, y + 5],
    ]),
  finish: (c, palette, x, y) =>
    polygon(c, palette.ink, palette.paper, [
      [x - 3.5, y - 3.5],
      [x + 3.5, y - 3.5],
      [x + 3.5, y + 3.5],
      [x - 3.5, y + 3.5],
    ]),
  hit: (c, palette, x, y) => ring(c, palette, x, y),
  defer: (c, palette, x, y) => {
    c.fillStyle = palette["ink-2"];
    c.beginPath();
    c.arc(x, y, 2, 0, 2 * Math.PI);
    c.fill();
  },
  abort: (c, palette, x, y) => {
    for (const [colour, width] of [
      [palette.paper, 4],
      [palette.fault, 2],
    ]) {
      c.strokeStyle = colour;
      c.lineWidth = width;
      c.beginPath();
      for (const side of [-1, 1]) {
        c.moveTo(x - 4 * side, y - 4);
        c.lineTo(x + 4 * side, y + 4);
      }
      c.stroke();
    }
  },
};

function polygon(c, fill, edge, points) {
  c.beginPath();
  points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
  c.closePath();
  c.fillStyle = fill;
  c.fill();
  c.strokeStyle = edge;
  c.lineWidth = 1;
  c.stroke();
}

function ring(c, palette, x, y) {
  c.beginPath();
  c.arc(x, y, 3.5, 0, 2 * Math.PI);
  c.fillStyle = palette.paper;
  c.fill();
  c.strokeStyle = palette.generated;
  c.lineWidth = 2;
  c.stroke();
}

// ── Steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function paintAxis({ c, palette, lanes, layout, view, first, last, x }) {
  const y = view.height - 3;
  c.fillStyle = palette.paper;
  c.fillRect(0, view.height - AXIS, GUTTER - 4, AXIS);
  c.textAlign = "left";
  c.fillStyle = palette["ink-3"];
  c.fillText(t("lanes.step"), 0, y);
  const every = labelEvery(layout.cell, 30);
  c.textAlign = "center";
  for (let i = first; i <= last; i++) {
    const { step, kind } = lanes.columns[i];
    if (kind === "step" && (step % every === 0 || step === 1)) c.fillText(String(step), x(i) + layout.cell / 2, y);
  }
}
