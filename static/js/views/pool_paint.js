// Painting the pool: blocks with their owners' colours, slots with their tokens, waste hatched, cached apart from free.

import { hairline, roundRect } from "../draw/canvas.js";
import { alpha, colours } from "../draw/colour.js";
import { motionAt } from "../draw/frame.js";
import { HEAD } from "../draw/pool.js";
import { sequencePattern, wastePattern } from "../draw/texture.js";
import { pointed, shownSeq, stage, state } from "../model/store.js";
import { tokenLabels } from "../trace/labels.js";

const owners = new WeakMap(); // state -> Map of block id to the sequences that hold it

/** block id -> ids of the sequences whose table has it. */
export function ownersOf(now) {
  if (owners.has(now)) return owners.get(now);
  const found = new Map();
  for (const seq of now.sequences.values())
    for (const id of seq.block_table) found.set(id, [...(found.get(id) ?? []), seq.seq_id]);
  owners.set(now, found);
  return found;
}

export function paintPool(c, layout) {
  const now = state.value;
  const log = stage.value?.log ?? null;
  const palette = colours();
  const record = log?.records[now.index] ?? null;
  const held = ownersOf(now);
  const places = new Map(now.free_queue.map((id, place) => [id, place + 1]));
  const fresh = freshSlots(record, log, now);
  const progress = motionAt();
  for (const block of now.blocks) {
    const at = { ...layout.blockAt(block.block_id), seqs: held.get(block.block_id) ?? [] };
    paintHead(c, palette, layout, block, at, places.get(block.block_id));
    for (let offset = 0; offset < now.block_size; offset++) {
      const slot = layout.slotAt(block.block_id, offset);
      const filled = offset < block.token_ids.length;
      const grown = fresh.has(block.block_id * now.block_size + offset) ? progress : 1;
      if (filled) paintFilled(c, palette, layout, block, at, slot, grown, labelAt(log, now, block.block_id, offset));
      else paintEmpty(c, palette, layout, block, slot);
    }
    paintFrame(c, palette, layout, block, at);
  }
  paintPointed(c, palette, layout, now);
}

/** Slots written in this record: they fill while the motion lasts. */
function freshSlots(record, log, now) {
  const found = new Set();
  for (const write of log?.writes[record?.index] ?? [])
    for (let p = write.start; p < write.start + write.num_tokens; p++)
      found.add(write.block_table[Math.floor(p / now.block_size)] * now.block_size + (p % now.block_size));
  return found;
}

function labelAt(log, now, block, offset) {
  const origin = log?.slotOrigin(block * now.block_size + offset, now.index);
  const seq = origin && now.sequences.get(origin.seq_id);
  if (!seq) return null;
  return { label: tokenLabels(seq.token_bytes)[origin.position], generated: origin.position >= seq.num_prompt_tokens };
}

function paintHead(c, palette, layout, block, at, place) {
  const base = at.y + HEAD - 4;
  c.font = "10px system-ui, sans-serif";
  c.textAlign = "left";
  c.fillStyle = block.ref_count > 0 ? palette.ink : palette["ink-3"];
  c.fillText(String(block.block_id), at.x, base);
  let x = at.x + 18;
  for (const seq of at.seqs.slice(0, 3)) {
    c.fillStyle = palette.sequences[seq % 8];
    c.fillRect(x, base - 7, 7, 7);
    x += 9;
  }
  c.textAlign = "right";
  const right = at.x + layout.block.width;
  if (block.ref_count > 1) badge(c, palette, right - (block.block_hash ? 10 : 0), base, `×${block.ref_count}`);
  c.fillStyle = block.ref_count > 0 ? palette["ink-2"] : palette["ink-3"];
  if (block.block_hash) c.fillText("#", right, base);
  if (place !== undefined) c.fillText(place === 1 ? "▸1" : String(place), right - (block.block_hash ? 10 : 0), base);
}

function badge(c, palette, right, base, text) {
  c.font = "bold 10px system-ui, sans-serif";
  c.fillStyle = palette.ink;
  c.fillText(text, right, base);
  c.font = "10px system-ui, sans-serif";
}

function paintFilled(c, palette, layout, block, at, slot, grown, content) {
  const cell = layout.cell;
  const free = block.ref_count === 0;
  const ids = at.seqs.length ? at.seqs : [block.allocated_by ?? 0];
  const height = (cell - 1) * grown;
  const top = slot.y + (cell - 1) - height;
  ids.slice(0, 2).forEach((id, i, all) => {
    const colour = palette.sequences[id % 8];
    const width = (cell - 1) / all.length;
    c.fillStyle = alpha(colour, free ? 0.1 : id === shownSeq.value || all.length > 1 ? 0.42 : 0.3);
    c.fillRect(slot.x + i * width, top, width, height);
    if (cell >= 8) {
      c.fillStyle = sequencePattern(c, id, colour, free ? 0.18 : 0.4);
      c.fillRect(slot.x + i * width, top, width, height);
    }
  });
  if (content && !free && cell >= 7) {
    c.fillStyle = content.generated ? palette.generated : palette.prompt;
    c.fillRect(slot.x, slot.y + cell - 3, cell - 1, 2);
  }
  if (content && cell >= 13 && grown > 0.6) {
    const text = Array.from(content.label.of ? content.label.char ?? "·" : content.label.text.replace("␣", "")).slice(0, 1).join("") || "␣";
    c.font = `${Math.min(14, cell - 5)}px system-ui, "Noto Sans CJK SC", sans-serif`;
    c.textAlign = "center";
    c.fillStyle = free ? palette["ink-3"] : palette.ink;
    c.fillText(text, slot.x + (cell - 1) / 2, slot.y + cell / 2 + Math.min(14, cell - 5) * 0.33);
  }
}

function paintEmpty(c, palette, layout, block, slot) {
  const cell = layout.cell;
  if (block.ref_count > 0) {
    c.fillStyle = wastePattern(c, palette.waste);
    c.fillRect(slot.x, slot.y, cell - 1, cell - 1);
  } else if (cell >= 8) {
    c.fillStyle = palette["line-2"];
    c.fillRect(slot.x + cell / 2 - 1, slot.y + cell / 2 - 1, 1.5, 1.5);
  }
}

function paintFrame(c, palette, layout, block, at) {
  const width = layout.perRow * layout.cell;
  const height = layout.lines * layout.cell;
  const held = block.ref_count > 0;
  c.lineWidth = 1;
  c.strokeStyle = held ? palette.sequences[(at.seqs[0] ?? 0) % 8] : block.block_hash ? palette["ink-3"] : palette.line;
  c.setLineDash(!held && block.block_hash ? [3, 2] : []);
  roundRect(c, at.x - 1.5, at.y + HEAD - 1.5, width + 2, height + 2, 2);
  c.stroke();
  c.setLineDash([]);
}

/** The pointed slot, its block, and the blocks of the shown sequence's table by an underline. */
function paintPointed(c, palette, layout, now) {
  const target = pointed.value;
  if (!target) return;
  let { block, offset } = target;
  const at = stage.value;
  if (target.position !== undefined && at && target.position < at.numFilled) {
    block = at.table[Math.floor(target.position / now.block_size)];
    offset = target.position % now.block_size;
  }
  if (block === undefined || block >= now.blocks.length) return;
  const box = layout.blockAt(block);
  c.strokeStyle = palette.focus;
  c.lineWidth = 2;
  roundRect(c, box.x - 3, box.y + HEAD - 3, layout.perRow * layout.cell + 5, layout.lines * layout.cell + 5, 4);
  c.stroke();
  if (offset === undefined || offset === null) return;
  const slot = layout.slotAt(block, offset);
  c.lineWidth = 2.5;
  c.strokeRect(slot.x + 0.5, slot.y + 0.5, layout.cell - 2, layout.cell - 2);
  hairline(c, box.x, box.y + HEAD - 3, box.x + 12, box.y + HEAD - 3, palette.focus);
}
