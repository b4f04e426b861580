// Budgets above the tracks: tokens and sequences of each step, with their limits.

import { grouped, t } from "../../i18n/words.js";
import { niceCeiling } from "../../kit/colour.js";
import { budgetScale, GUTTER } from "./geometry.js";

/** @import {At} from "./paint.js" */

/** @typedef {import("./paint.js").At["tracks"]["columns"][number]} Column */

/** @param {At} at */
export function paintBudgets(at) {
  const { c, palette, tracks, layout, limits, shown } = at;
  if (layout.top === 0) return;
  const now = tracks.columns[shown];
  const { tokens, seqs, gap } = layout.budget;
  const tokenScale = budgetScale(tracks.most.tokens, limits.tokens, niceCeiling);
  paintBars(at, 0, tokens, tokenScale, limits.tokens, (column) => [
    [column.decode, palette.generated, null],
    [column.prefill, palette.prompt, null],
  ]);
  const seqScale = budgetScale(tracks.most.scheduled, limits.seqs, niceCeiling);
  paintBars(at, tokens + gap, seqs, seqScale, limits.seqs, (column) => [[column.scheduled, palette["ink-3"], null]]);
  c.fillStyle = palette.paper;
  c.fillRect(0, 0, layout.gutter - 4, layout.top);
  const used = now && now.kind === "step" ? now.prefill + now.decode : null;
  paintLabel(
    c,
    palette,
    t("tracks.tokens"),
    used === null ? grouped(limits.tokens) : `${grouped(used)}/${grouped(limits.tokens)}`,
    0,
    tokens,
  );
  paintLabel(
    c,
    palette,
    t("tracks.seqs"),
    now && now.kind === "step" ? `${now.scheduled}/${limits.seqs}` : String(limits.seqs),
    tokens + gap,
    seqs,
  );
}

/**
 * Paint a row of bars above its base line, and the limit as a dashed line if it is within the scale.
 * @param {At} at @param {number} y @param {number} height
 * @param {number} scale @param {number} limit @param {(column: Column) => [number, string, null][]} parts
 */
function paintBars({ c, palette, tracks, layout, view, first, last, x }, y, height, scale, limit, parts) {
  const gap = layout.cell > 4 ? 1 : 0;
  for (let i = first; i <= last; i++) {
    let base = y + height;
    for (const [value, colour] of parts(tracks.columns[i])) {
      if (!value) continue;
      const barHeight = Math.max(1, (value / scale) * (height - 1));
      c.fillStyle = colour;
      c.fillRect(x(i), base - barHeight, layout.cell - gap, barHeight);
      base -= barHeight;
    }
  }
  c.fillStyle = palette.line;
  c.fillRect(layout.gutter, y + height - 1, view.width - layout.gutter, 1);
  if (limit > scale) return;
  const top = Math.round(y + height - (limit / scale) * (height - 1)) + 0.5;
  c.strokeStyle = palette.fault;
  c.setLineDash([4, 3]);
  c.beginPath();
  c.moveTo(layout.gutter, top);
  c.lineTo(view.width, top);
  c.stroke();
  c.setLineDash([]);
}

/**
 * @param {CanvasRenderingContext2D} c @param {import("../../kit/colour.js").Palette} palette @param {string} name
 * @param {string} value @param {number} y @param {number} height
 */
function paintLabel(c, palette, name, value, y, height) {
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
