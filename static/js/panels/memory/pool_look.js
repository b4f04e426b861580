// How a block looks at rest, and in between: its owners, its hash, the level of each slot.

import { progressOf } from "./pool_motion.js";

/**
 * @typedef {import("./pool_motion.js").Motion} Motion
 * @typedef {import("../../state/moment.js").Progress} Progress
 * @typedef {import("../../state/store.js").State} State
 * @typedef {{
 *   owners: {seq: number, share: number}[], held: number, hash: number, fill: number[], fresh: Set<number>,
 *   renewed: boolean,
 * }} Look
 */

/**
 * How a block at rest looks: `owners` [{seq, share}] (share in [0, 1]), `held` and `hash` in [0, 1], `fill`: the level
 * of each slot, `fresh`: the slots that this record wrote, `renewed`: this record gave the block another life.
 *
 * @param {State["blocks"][number]} block
 * @param {number[]} owners
 * @param {number} size
 * @returns {Look}
 */
export function restingLook(block, owners, size) {
  return {
    owners: owners.map((seq) => ({ seq, share: 1 })),
    held: block.ref_count > 0 ? 1 : 0,
    hash: block.block_hash === null ? 0 : 1,
    fill: Array.from({ length: size }, (_, slot) => (slot < block.token_ids.length ? 1 : 0)),
    fresh: new Set(),
    renewed: false,
  };
}

/**
 * The look of a block in between: `look`, as it was before the record, changed by its motions as far as they have come.
 *
 * @param {Look} look
 * @param {Motion[]} motions
 * @param {Progress} phases
 */
export function movingLook(look, motions, phases) {
  for (const motion of motions) {
    const p = progressOf(motion, phases);
    if (p > 0) CHANGES[motion.op.type]?.(look, motion, p);
  }
  return look;
}

/** @type {Record<string, (look: Look, motion: Motion, p: number) => void>} */
const CHANGES = {
  evict(look, _motion, p) {
    look.hash *= 1 - p;
    look.fill = look.fill.map((level) => level * (1 - p));
  },
  allocate(look, { op }, p) {
    look.owners = [{ seq: op.seq_id, share: p }];
    look.held = p;
    look.renewed = true;
    look.fill = look.fill.map(() => 0);
  },
  share(look, { op }, p) {
    look.owners.push({ seq: op.seq_id, share: p });
    look.held = Math.max(look.held, p);
  },
  fork(look, { op }, p) {
    look.owners.push({ seq: op.seq_id, share: p });
  },
  copy(look, { op, block, slots }, p) {
    if (block === op.src) leave(look, op.seq_id, p);
    else fillTo(look, slots, () => p);
  },
  swap_in(look, { slots }, p) {
    fillTo(look, slots, () => p);
  },
  write(look, { slots }, p) {
    const [first, end] = slots;
    fillTo(look, slots, (slot) => Math.max(0, Math.min(1, p * 1.5 - (0.5 * (slot - first)) / (end - first))));
    for (let slot = first; slot < end; slot++) look.fresh.add(slot);
  },
  cache(look, _motion, p) {
    look.hash = p;
  },
  free: giveBack,
  release: giveBack,
};

/**
 * @param {Look} look
 * @param {Motion} motion
 * @param {number} p
 */
function giveBack(look, { op }, p) {
  leave(look, op.seq_id, p);
  if ((op.to ?? null) === null) return;
  look.held = 1 - p;
  if (look.hash === 0) look.fill = look.fill.map((level) => level * (1 - p));
}

/**
 * @param {Look} look
 * @param {[number, number]} slots
 * @param {(slot: number) => number} level
 */
function fillTo(look, [first, end], level) {
  for (let slot = first; slot < end; slot++) look.fill[slot] = level(slot);
}

/**
 * @param {Look} look
 * @param {number} seq
 * @param {number} p
 */
function leave(look, seq, p) {
  look.owners = look.owners
    .map((o) => (o.seq === seq ? { seq, share: o.share * (1 - p) } : o))
    .filter((o) => o.share > 0);
}
