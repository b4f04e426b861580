// Painting of the tracks: budgets, a row per sequence, event marks, the shown record.

import { instanceName } from "../../core/instances.js";
import { marksIn, runFrom } from "../../core/tracks.js";
import { t } from "../../i18n/words.js";
import { alpha, colours } from "../../kit/colour.js";
import { sequencePattern } from "../../kit/texture.js";
import { paintRun } from "../../kit/track_run.js";
import { paintBudgets } from "./budgets.js";
import { AXIS_HEIGHT, labelEvery } from "./geometry.js";
import { paintMark } from "./marks.js";

const FONT = '12px system-ui, "Noto Sans CJK SC", sans-serif';

/**
 * Parameters of the painters: tracks, layout, the visible window of the plane, and the visible records.
 *
 * @typedef {import("../../core/tracks.js").ShownTracks} Tracks
 * @typedef {Tracks["tracks"][number]} Track
 * @typedef {{left: number, top: number, width: number, height: number}} View
 * @typedef {{
 *   tracks: Tracks, layout: import("./geometry.js").Layout, view: View,
 *   header: import("../../core/trace.js").Header, limits: {tokens: number, seqs: number}, shown: number,
 *   shownSeq: number | null,
 *   selected: import("../../core/provenance/types.js").Selection | null,
 * }} Plane
 * @typedef {Plane & {
 *   c: CanvasRenderingContext2D, palette: import("../../kit/colour.js").Palette, first: number, last: number,
 *   x: (record: number) => number,
 * }} At
 */

/**
 * Paint the window `view` (scroll position and size) of the plane.
 * @param {CanvasRenderingContext2D} c @param {Plane} plane
 */
export function paintTracks(c, { tracks, layout, view, header, limits, shown, shownSeq, selected }) {
  const palette = colours();
  const first = Math.max(0, Math.floor(view.left / layout.cell));
  const last = Math.min(tracks.length - 1, Math.ceil((view.left + view.width - layout.gutter) / layout.cell));
  const at = {
    c,
    palette,
    tracks,
    layout,
    view,
    header,
    limits,
    shown,
    shownSeq,
    selected,
    first,
    last,
    /** @param {number} record */
    x: (record) => layout.x(record) - view.left,
  };
  c.font = FONT;
  paintClipped(c, layout.gutter, 0, view.width - layout.gutter, view.height, () => paintShown(at));
  paintClipped(c, 0, layout.top, view.width, view.height - layout.top - AXIS_HEIGHT, () => paintRows(at));
  paintClipped(c, 0, 0, view.width, layout.top, () => paintBudgets(at));
  paintAxis(at);
}

/**
 * @param {CanvasRenderingContext2D} c @param {number} x @param {number} y
 * @param {number} width @param {number} height @param {() => void} paint
 */
function paintClipped(c, x, y, width, height, paint) {
  c.save();
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
  paint();
  c.restore();
}

/** Highlight the column of the shown record. @param {At} at */
function paintShown({ c, palette, layout, view, shown, x }) {
  if (shown < 0) return;
  c.fillStyle = alpha(palette.focus, 0.14);
  c.fillRect(x(shown), 0, layout.cell, view.height);
  c.fillStyle = palette.focus;
  c.fillRect(x(shown), view.height - 2, layout.cell, 2);
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** @param {At} at */
function paintRows(at) {
  const { c, palette, tracks, layout, view } = at;
  const from = Math.max(0, Math.floor(view.top / layout.row));
  const bottom = view.top + view.height - layout.top - AXIS_HEIGHT;
  const to = Math.min(tracks.tracks.length - 1, Math.floor(bottom / layout.row));
  for (let i = from; i <= to; i++) {
    paintRow(at, tracks.tracks[i], layout.y(i) - view.top);
    const previous = i > Number(tracks.pinned) ? tracks.tracks[i - 1] : undefined;
    if (i === from || previous?.instance !== tracks.tracks[i].instance)
      paintInstance(at, tracks.tracks[i], layout.y(i) - view.top, i > from);
  }
  if (!layout.pinned) return;
  c.fillStyle = palette.paper; // hide rows scrolled below the pinned one
  c.fillRect(0, layout.top, view.width, layout.pinned);
  c.fillStyle = alpha(palette.focus, 0.1);
  c.fillRect(0, layout.top, view.width, layout.pinned);
  paintClipped(c, layout.gutter, layout.top, view.width - layout.gutter, layout.pinned, () => paintShown(at));
  paintRow(at, tracks.tracks[0], layout.top);
}

/** Paint a track and its name. @param {At} at @param {Track} track @param {number} y */
function paintRow(at, track, y) {
  const { c, palette, layout, view, shownSeq } = at;
  paintClipped(c, layout.gutter - 1, y, view.width - layout.gutter + 1, layout.row, () => paintTrack(at, track, y));
  c.fillStyle = palette.sequences[track.seq_id % 8];
  c.fillRect(0, y + layout.row / 2 - 5, 10, 10);
  c.fillStyle = sequencePattern(c, track.seq_id, palette.paper, 0.9);
  c.fillRect(0, y + layout.row / 2 - 5, 10, 10);
  c.textAlign = "left";
  c.fillStyle = track.seq_id === shownSeq ? palette.ink : palette["ink-2"];
  c.font = track.seq_id === shownSeq ? `bold ${FONT}` : FONT;
  c.fillText(String(track.seq_id), 15, y + layout.row / 2 + 4);
  c.font = FONT;
}

/**
 * Paint an instance's name beside its first track, with a line above.
 * @param {At} at @param {Track} track @param {number} y
 * @param {boolean} hasLine
 */
function paintInstance({ c, palette, layout, view, header }, track, y, hasLine) {
  const name = instanceName(header, track.instance);
  if (!name) return;
  c.fillStyle = palette["ink-2"];
  c.textAlign = "left";
  c.fillText(name, 42, y + layout.row / 2 + 4, layout.gutter - 46);
  c.fillStyle = palette.line;
  if (hasLine) c.fillRect(0, y, view.width, 1);
}

/** @param {At} at @param {Track} track @param {number} y */
function paintTrack(at, track, y) {
  const { c, layout, first, last, x } = at;
  for (let i = runFrom(track, first); i < track.runs.length && track.runs[i].from <= last; i++) {
    const run = track.runs[i];
    const [from, to] = [Math.max(run.from, first), Math.min(run.to, last)];
    paintRun(c, at.palette, run, x(from), y, (to - from + 1) * layout.cell, layout);
  }
  for (const mark of marksIn(track, first, last))
    paintMark(c, at.palette, mark.mark, x(mark.record) + layout.cell / 2, y, layout.row, isSelected(at, mark));
}

/** @type {(at: At, mark: {record: number, at: number}) => boolean} */
const isSelected = ({ selected }, mark) => selected?.record === mark.record && selected?.op === mark.at;

// ── Steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** @param {At} at */
function paintAxis({ c, palette, tracks, layout, view, first, last, x }) {
  const y = view.height - 3;
  c.fillStyle = palette.paper;
  c.fillRect(0, view.height - AXIS_HEIGHT, layout.gutter - 4, AXIS_HEIGHT);
  c.textAlign = "left";
  c.fillStyle = palette["ink-3"];
  c.fillText(t("tracks.step"), 0, y);
  const every = labelEvery(layout.cell, 30);
  c.textAlign = "center";
  for (let i = first; i <= last; i++) {
    const { step, kind } = tracks.columns[i];
    if (kind === "step" && (step % every === 0 || step === 1)) c.fillText(String(step), x(i) + layout.cell / 2, y);
  }
}
