// Painting of the pool at slot level: owners' colours and textures, tokens, hatched waste, and cached content distinct
// from free space.

import { tokenLabels } from "../../core/labels.js";
import { roundRect } from "../../kit/canvas.js";
import { alpha, colours, sequentialAt } from "../../kit/colour.js";
import { fittedOnCanvas } from "../../kit/measure.js";
import { sequencePattern, wastePattern } from "../../kit/texture.js";
import { phasesNow } from "../../state/playhead.js";
import { connected, drawnIndex, log, shownSeq, state } from "../../state/store.js";
import { paintBlocks } from "./pool_paint_blocks.js";
import { glow, lookAt, placesOf, queuesNow, reads, scene } from "./pool_scene.js";

/** @import {Box, Layout} from "./pool_geometry.js" */
/** @import {Look} from "./pool_look.js" */

const SMALL_FONT = "10px system-ui, sans-serif";
const [TINT, TEXTURE] = [0.34, 0.42]; // opacity of an owner's colour and texture

/**
 * Context of the painters: the scene and its progress, slot reads with their brightness, and slots per block.
 *
 * @typedef {{
 *   c: CanvasRenderingContext2D, layout: Layout, palette: import("../../kit/colour.js").Palette,
 *   now: import("./pool_scene.js").Scene, progress: import("../../state/playhead.js").Progress,
 *   glow: number, reads: Map<number, number>, size: number,
 * }} Frame
 */

/**
 * Paint the pool at the current progress of the drawn record.
 * @param {CanvasRenderingContext2D} c @param {Layout} layout
 */
export function paintPool(c, layout) {
  const now = scene.value;
  if (!now) return;
  const progress = phasesNow();
  /** @type {Frame} */
  const frame = {
    c,
    layout,
    palette: colours(),
    now,
    progress,
    glow: glow(progress),
    reads: reads.value,
    size: now.after.block_size,
  };
  if (layout.level === "blocks") paintBlocks(frame);
  else paintSlots(frame);
  paintConnected(frame);
}

/** @param {Frame} frame */
function paintSlots(frame) {
  const places = placesOf(queuesNow.value);
  for (const { block_id: id } of frame.now.after.blocks) {
    const look = lookAt(frame.now, id, frame.progress);
    paintHead(frame, id, look, places.get(id));
    for (let offset = 0; offset < frame.size; offset++) paintSlot(frame, id, offset, look);
    paintFrame(frame, id, look);
  }
}

/**
 * Paint a block's header line: id, reference count, hash mark, place in the free queue.
 * @param {Frame} frame @param {number} id @param {Look} look
 * @param {number | undefined} place
 */
function paintHead({ c, layout, palette }, id, look, place) {
  const at = layout.blockAt(id);
  const base = at.y + layout.head - 4;
  const held = look.held > 0.5;
  c.font = SMALL_FONT;
  c.textAlign = "left";
  c.fillStyle = held ? palette.ink : palette["ink-3"];
  c.fillText(String(id), at.x, base);
  c.textAlign = "right";
  let right = at.x + at.width;
  if (look.hash > 0) {
    c.fillStyle = alpha(palette[held ? "ink-2" : "ink-3"], look.hash);
    c.fillText("#", right, base);
    right -= 9;
  }
  if (look.owners.length > 1) {
    c.font = `bold ${SMALL_FONT}`;
    c.fillStyle = palette.ink;
    c.fillText(`×${look.owners.length}`, right, base);
  } else if (place !== undefined && !held) {
    c.fillStyle = place === 1 ? palette.ink : palette["ink-3"];
    c.fillText(place === 1 ? "▸1" : String(place), right, base);
  }
}

/** @param {Frame} frame @param {number} id @param {number} offset @param {Look} look */
function paintSlot(frame, id, offset, look) {
  const { c, layout, palette } = frame;
  const box = layout.slotAt(id, offset);
  const { x, y, width, height } = box;
  const level = look.fill[offset];
  if (look.held > 0 && level < 1) {
    c.globalAlpha = look.held;
    c.fillStyle = wastePattern(c, palette.waste);
    c.fillRect(x, y, width, height);
    c.globalAlpha = 1;
  } else if (look.held === 0 && level === 0 && layout.cell >= 7) {
    c.fillStyle = palette.line;
    c.fillRect(x + width / 2 - 0.75, y + height / 2 - 0.75, 1.5, 1.5);
  }
  if (level === 0) return;
  const filled = { x, y: y + height * (1 - level), width, height: height * level };
  c.fillStyle = palette.paper;
  c.fillRect(x, filled.y, width, filled.height);
  if (look.owners.length) paintOwners(frame, look.owners, filled);
  else {
    c.fillStyle = alpha(palette["ink-3"], 0.12); // cached content without a holder
    c.fillRect(x, filled.y, width, filled.height);
  }
  const read = frame.reads.get(id * frame.size + offset) ?? 0;
  if (read > 0) paintRead(frame, read, box);
  if (layout.cell >= 7) paintToken(frame, id, offset, look, box);
}

/**
 * Paint owners' colours side by side in proportion to their shares; a shared block has several colours.
 * @param {Frame} frame @param {Look["owners"]} owners @param {Box} box
 */
function paintOwners({ c, palette, layout }, owners, { x, y, width, height }) {
  const shown = owners.slice(0, 4);
  const total = shown.reduce((sum, o) => sum + o.share, 0);
  let left = x;
  for (const { seq, share } of shown) {
    const ownerWidth = (width * share) / Math.max(total, 1);
    const strength = shown.length > 1 || seq === shownSeq.value ? 1 : 0.8;
    c.fillStyle = alpha(palette.sequences[seq % 8], TINT * strength);
    c.fillRect(left, y, ownerWidth, height);
    if (layout.cell >= 6) {
      c.fillStyle = sequencePattern(c, seq, palette.sequences[seq % 8], TEXTURE * strength);
      c.fillRect(left, y, ownerWidth, height);
    }
    left += ownerWidth;
  }
}

/**
 * Highlight a slot while it is read, with its weight as brightness. A line at the slot's top remains afterwards.
 * @param {Frame} frame @param {number} read @param {Box} box
 */
function paintRead({ c, palette, glow: glowNow, progress }, read, { x, y, width, height }) {
  const colour = sequentialAt(palette.sequential, read);
  if (glowNow > 0) {
    c.globalAlpha = glowNow * Math.min(1, 0.15 + read);
    c.fillStyle = colour;
    c.fillRect(x, y, width, height);
  }
  c.globalAlpha = progress.attend * Math.min(1, read * 1.5);
  c.fillStyle = colour;
  c.fillRect(x, y, width, 2);
  c.globalAlpha = 1;
}

/** @param {Frame} frame @param {number} id @param {number} offset @param {Look} look @param {Box} box */
function paintToken({ c, layout, palette, size }, id, offset, look, { x, y, width, height }) {
  const now = look.renewed || look.fresh.has(offset);
  const content = labelAt(id * size + offset, now ? drawnIndex.value : drawnIndex.value - 1);
  if (!content) return;
  const held = look.held > 0.5;
  if (held) {
    c.fillStyle = content.generated ? palette.generated : palette.prompt;
    c.fillRect(x, y + height - 2, width, 2);
  }
  if (look.fill[offset] < 0.6) return;
  const text = inSlot(content.label);
  const px = fittedOnCanvas(text, width - 2, Math.min(14, layout.tall - 5));
  if (px === null) return;
  c.font = `${px}px system-ui, "Noto Sans CJK SC", sans-serif`;
  c.textAlign = "center";
  c.fillStyle = held ? palette.ink : palette["ink-3"];
  c.fillText(text, x + width / 2, y + height / 2 + px * 0.36, width - 2);
}

/**
 * Text of a token in a slot, without its leading space. A token that is part of a character shows that character.
 * @param {import("../../core/labels.js").Label} label
 */
const inSlot = (label) => (label.of ? (label.char ?? "·") : label.text.replace(/^␣(?=.)/, ""));

/**
 * Return the token in a slot after record `index`, from the sequence that wrote it, or null if it is unknown.
 * @param {number} slot @param {number} index
 */
export function labelAt(slot, index) {
  const origin = log.value?.slotOrigin(slot, index);
  const seq = origin && state.value?.sequences.get(origin.seq_id);
  const label = seq && tokenLabels(seq.token_bytes)[origin.position]; // draft tokens are not in the text
  return label ? { label, generated: origin.position >= seq.num_prompt_tokens } : null;
}

/** @param {Frame} frame @param {number} id @param {Look} look */
function paintFrame({ c, layout, palette }, id, look) {
  const at = layout.blockAt(id);
  const [x, y] = [at.x - 1.5, at.y + layout.head - 1.5];
  const [width, height] = [layout.perRow * layout.cell + 2, layout.lines * layout.tall + 2];
  const cached = look.held < 0.5 && look.hash > 0;
  c.lineWidth = 1;
  c.setLineDash(cached ? [3, 2] : []);
  c.strokeStyle = cached ? palette["ink-3"] : palette.line;
  roundRect(c, x, y, width, height, 2);
  c.stroke();
  c.setLineDash([]);
  look.owners.slice(0, 2).forEach(({ seq, share }, i, all) => {
    c.save();
    c.beginPath();
    c.rect(x - 1 + (i * (width + 2)) / all.length, y - 1, (width + 2) / all.length, height + 2);
    c.clip();
    c.globalAlpha = share;
    c.lineWidth = all.length > 1 ? 1.75 : 1.25;
    c.strokeStyle = palette.sequences[seq % 8];
    roundRect(c, x, y, width, height, 2);
    c.stroke();
    c.restore();
  });
}

/** Frame the blocks and mark the slots that belong to the selection. @param {Frame} frame */
function paintConnected({ c, layout, palette, now, size }) {
  const selection = connected.value;
  if (!selection) return;
  c.strokeStyle = palette.focus;
  const isSlotLevel = layout.level === "slots";
  for (const id of selection.blocks) {
    if (id >= now.after.blocks.length) continue;
    const at = layout.blockAt(id);
    const [width, height] = isSlotLevel
      ? [layout.perRow * layout.cell, layout.lines * layout.tall]
      : [at.width, at.height];
    const distance = isSlotLevel ? 3 : Math.min(2, at.width / 3);
    c.lineWidth = selection.blocks.size > 12 ? 1.25 : 2;
    roundRect(
      c,
      at.x - distance,
      at.y + layout.head - distance,
      width + 2 * distance - 1,
      height + 2 * distance - 1,
      4,
    );
    c.stroke();
  }
  for (const slot of selection.slots) {
    const at = layout.slotAt(Math.floor(slot / size), slot % size);
    if (layout.cell < 4 || !at) continue;
    c.lineWidth = 2.5;
    c.strokeRect(at.x + 0.5, at.y + 0.5, at.width - 1, at.height - 1);
  }
}
