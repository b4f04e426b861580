// Names in the token row's cells: K₃, V₃ and Q₃ over the vectors of position 3.

/** @import {Kind} from "./token_row_columns.js" */

const FONT = "600 10.5px system-ui, sans-serif";
const HALO = 3; // px of the surface around the letters
const DIGITS = "₀₁₂₃₄₅₆₇₈₉";

/** Name of a vector. @param {Kind} kind @param {number} position */
export const vectorName = (kind, position) =>
  kind.toUpperCase() + Array.from(String(position), (digit) => DIGITS[Number(digit)]).join("");

/**
 * Paint the names of a row's vectors where they fit their columns. The name of one that is being computed appears with
 * it.
 * @param {import("./token_row_paint.js").Scene} scene
 * @param {import("./geometry.js").Band} box
 * @param {Kind} kind
 * @param {(position: number) => import("./token_row_columns.js").Cell} cellAt
 */
export function paintNames({ c, palette, layout, first, last, phases }, box, kind, cellAt) {
  c.save();
  c.font = FONT;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.lineJoin = "round";
  c.lineWidth = HALO;
  c.strokeStyle = palette.surface;
  c.fillStyle = palette[kind];
  for (let p = first; p < last; p++) {
    const cell = cellAt(p);
    const name = vectorName(kind, p);
    if (!cell.vector || c.measureText(name).width > layout.width - 2) continue;
    const [x, y] = [layout.x(p) + layout.width / 2, box.y + box.height / 2];
    c.globalAlpha = cell.fresh ? phases.qkv : 1;
    c.strokeText(name, x, y);
    c.fillText(name, x, y);
  }
  c.restore();
}
