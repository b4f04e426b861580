// Painting of the causal matrix around its rows: background, unknown rows, the current query, labels and the selection.

import { canFetch } from "../../core/attention.js";
import { labelText } from "../../core/labels.js";
import { alpha } from "../../kit/colour.js";
import { wastePattern } from "../../kit/texture.js";
import { pointed } from "../../state/store.js";
import { image, nameOf } from "./matrix_image.js";
import { worstCell } from "./proof.js";

/** @import {Palette} from "../../kit/colour.js" */
/** @import {View} from "../../state/store.js" */

/**
 * Paint the triangle of causal cells.
 * @param {CanvasRenderingContext2D} c @param {Palette} palette @param {number} count
 * @param {number} cell
 */
export function paintGround(c, palette, count, cell) {
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

/**
 * Hatch the rows that are not in the log.
 * @param {CanvasRenderingContext2D} c @param {Palette} palette
 * @param {(typeof import("./matrix_image.js").sources)["value"]} from @param {View} now @param {number} cell
 */
export function paintUnknown(c, palette, from, now, cell) {
  for (let query = 0; query < from.length; query++) {
    const source = from[query];
    if (source && (image.rows.sources[query] === nameOf(source) || canFetch(now.log, source, now.layer))) continue;
    c.fillStyle = wastePattern(c, palette.line);
    c.fillRect(0, query * cell, (query + 1) * cell, cell);
  }
}

/**
 * Outline the current query and mark the rows computed in this record.
 * @param {CanvasRenderingContext2D} c @param {Palette} palette @param {View} now
 * @param {number} cell
 */
export function paintCurrentQuery(c, palette, now, cell) {
  if (now.query === null || !now.entry) return;
  outline(c, 0, now.query * cell, (now.query + 1) * cell, cell, palette.q, Math.min(1.5, Math.max(1, cell / 4)));
  c.fillStyle = palette.q;
  c.fillRect(-3, now.entry.start * cell, 2, (now.numFilled - now.entry.start) * cell);
}

/**
 * Draw each token once, at the diagonal, where its row ends and its column begins.
 * @param {CanvasRenderingContext2D} c @param {Palette} palette @param {View} now
 * @param {number} cell
 */
export function paintLabels(c, palette, now, cell) {
  c.font = `${Math.max(10, Math.min(13, Math.floor(cell) - 1))}px ${getComputedStyle(document.body).fontFamily}`;
  c.textBaseline = "middle";
  for (let position = 0; position < now.numFilled; position++) {
    c.fillStyle = position < now.seq.num_prompt_tokens ? palette.prompt : palette.generated;
    c.fillText(labelText(now.labels[position]), (position + 1) * cell + 4, (position + 0.5) * cell);
  }
}

/**
 * Highlight the hovered or pinned cell or key, and the worst cell of a proof.
 * @param {CanvasRenderingContext2D} c @param {Palette} palette @param {number} count
 * @param {number} cell
 */
export function paintPointed(c, palette, count, cell) {
  const target = pointed.value;
  const key = target?.position;
  if (!target || key === undefined || key >= count) {
    // the target is outside this matrix
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

/**
 * @param {CanvasRenderingContext2D} c @param {number} x @param {number} y
 * @param {number} width @param {number} height @param {string} colour
 * @param {number} line
 */
function outline(c, x, y, width, height, colour, line) {
  c.strokeStyle = colour;
  c.lineWidth = line;
  c.strokeRect(x - 0.5, y - 0.5, Math.max(2, width), Math.max(2, height));
}
