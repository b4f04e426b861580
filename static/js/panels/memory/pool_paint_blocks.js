// Painting of the pool at block level, for large pools: a square per block in its owners' colours, with its fill
// level.

import { alpha, sequentialAt } from "../../kit/colour.js";
import { sequencePattern, wastePattern } from "../../kit/texture.js";
import { lookAt } from "./pool_scene.js";

/** @import {Box} from "./pool_geometry.js" */
/** @import {Look} from "./pool_look.js" */
/** @import {Frame} from "./pool_paint.js" */

const TEXTURE_FROM = 7; // minimum px of a square for a texture
const ID_FROM = 18; // minimum px of a square for its id

/** @param {Frame} frame */
export function paintBlocks(frame) {
  const brightest = frame.glow > 0 || frame.progress.attend > 0 ? readsByBlock(frame) : new Map();
  for (const { block_id: id } of frame.now.after.blocks) {
    const look = lookAt(frame.now, id, frame.progress);
    const at = frame.layout.blockAt(id);
    if (look.held > 0) paintHeld(frame, look, at);
    else if (look.hash > 0) paintCached(frame, look, at);
    else paintFree(frame, at);
    if (look.held > 0 && look.held < 1) paintFree(frame, at, 1 - look.held);
    paintRead(frame, brightest.get(id) ?? 0, at);
    if (at.width >= ID_FROM) paintId(frame, id, look, at);
  }
}

/** @param {Look} look */
const filledShare = (look) => look.fill.reduce((sum, level) => sum + level, 0) / look.fill.length;

/**
 * Paint the fill level over the hatching of reserved empty slots; bars fill from the left.
 * @param {Frame} frame @param {Look} look @param {Box} at
 */
function paintHeld({ c, palette }, look, at) {
  const filled = filledShare(look);
  const isBar = at.width > 2 * at.height;
  c.globalAlpha = look.held;
  if (filled < 1 && at.width >= 4) {
    c.fillStyle = wastePattern(c, palette.waste);
    c.fillRect(at.x, at.y, at.width, at.height);
  }
  const total = Math.max(
    1,
    look.owners.reduce((sum, o) => sum + o.share, 0),
  );
  let left = at.x;
  for (const { seq, share } of look.owners.slice(0, 4)) {
    const colour = palette.sequences[seq % 8];
    const wide = (at.width * share) / total;
    /** @type {[number, number, number, number]} */
    const box = isBar
      ? [left, at.y, wide * filled, at.height]
      : [left, at.y + at.height * (1 - filled), wide, at.height * filled];
    c.fillStyle = alpha(colour, at.width >= TEXTURE_FROM ? 0.5 : 0.9);
    c.fillRect(...box);
    if (at.width >= TEXTURE_FROM) {
      c.fillStyle = sequencePattern(c, seq, colour, 0.5);
      c.fillRect(...box);
      c.strokeStyle = colour;
      c.lineWidth = 1;
      c.strokeRect(left + 0.5, at.y + 0.5, wide - 1, at.height - 1);
    }
    left += wide;
  }
  c.globalAlpha = 1;
}

/**
 * Paint a free block whose content is still cached: solid grey. Other free blocks are only outlined.
 * @param {Frame} frame @param {Look} look @param {Box} at
 */
function paintCached({ c, palette }, look, at) {
  c.fillStyle = alpha(palette["ink-3"], at.width >= TEXTURE_FROM ? 0.14 : 0.5);
  c.fillRect(at.x, at.y, at.width, at.height);
  if (at.width < TEXTURE_FROM) return;
  c.strokeStyle = alpha(palette["ink-3"], look.hash);
  c.lineWidth = 1;
  c.setLineDash([2, 2]);
  c.strokeRect(at.x + 0.5, at.y + 0.5, at.width - 1, at.height - 1);
  c.setLineDash([]);
}

/** @param {Frame} frame @param {Box} at @param {number} [opacity] */
function paintFree({ c, palette }, at, opacity = 1) {
  c.globalAlpha = opacity;
  if (at.width < TEXTURE_FROM) {
    c.fillStyle = palette["line-2"];
    c.fillRect(at.x, at.y, at.width, at.height);
  } else {
    c.strokeStyle = palette.line;
    c.lineWidth = 1;
    c.strokeRect(at.x + 0.5, at.y + 0.5, at.width - 1, at.height - 1);
  }
  c.globalAlpha = 1;
}

/** Return the largest weight read in each block, by block id. @param {Frame} frame */
function readsByBlock({ reads, size }) {
  /** @type {Map<number, number>} */
  const found = new Map();
  for (const [slot, read] of reads) {
    const id = Math.floor(slot / size);
    if (read > (found.get(id) ?? 0)) found.set(id, read);
  }
  return found;
}

/** @param {Frame} frame @param {number} read @param {Box} at */
function paintRead({ c, palette, glow }, read, at) {
  if (read === 0 || glow === 0) return;
  c.globalAlpha = glow * Math.min(1, 0.2 + read);
  c.fillStyle = sequentialAt(palette.sequential, read);
  c.fillRect(at.x, at.y, at.width, at.height);
  c.globalAlpha = 1;
}

/** @param {Frame} frame @param {number} id @param {Look} look @param {Box} at */
function paintId({ c, palette }, id, look, at) {
  c.font = "10px system-ui, sans-serif";
  c.textAlign = "center";
  c.fillStyle = look.held > 0.5 ? palette.ink : palette["ink-3"];
  const text = [look.hash > 0.5 ? `${id}#` : null, `${id}`].find(
    (name) => name && c.measureText(name).width <= at.width,
  );
  if (text) c.fillText(text, at.x + Math.min(at.width / 2, 16), at.y + at.height / 2 + 3.5); // only if it fits
}
