// Look of a block at rest and between two records. Pure.

import { writeProgress } from "../../kit/anchors.js";
import { progressOf } from "./pool_motion.js";

/** @import {Op} from "../../core/trace.js" */
/** @import {Progress} from "../../state/playhead.js" */
/** @import {State} from "../../state/store.js" */
/** @import {Slots} from "./pool_shadow.js" */

const FILL_FROM = 0.85; // share of the flight of K and V after which the slot fills

/**
 * @template {Op["type"]} [T=Op["type"]]
 * @typedef {import("./pool_motion.js").Motion<T>} Motion
 */

/**
 * Look of a block. Levels and shares are in [0, 1].
 *
 * @typedef {object} Look
 * @property {Owner[]} owners
 * @property {number} held
 * @property {number} hash opacity of the hash mark
 * @property {number[]} fill level of each slot
 * @property {Set<number>} fresh slots written by this record
 * @property {boolean} renewed whether this record reallocated the block
 */

/** @typedef {{seq: number, share: number}} Owner */

/**
 * Return the look at rest of a block of `size` slots held by the sequences `owners`.
 * @param {State["blocks"][number]} block @param {number[]} owners @param {number} size
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
 * Apply a block's motions, at their current progress, to its look before the record.
 * @param {Look} look @param {Motion[]} motions @param {Progress} phases
 */
export function movingLook(look, motions, phases) {
  for (const motion of motions) {
    const p = progressOf(motion, phases);
    const change = /** @type {Change | undefined} the entry for this motion's type */ (CHANGES[motion.op.type]);
    if (p > 0) change?.(look, motion, p);
  }
  return look;
}

/**
 * @template {Op["type"]} [T=Op["type"]]
 * @typedef {(look: Look, motion: Motion<T>, p: number) => void} Change
 */

/** @type {{[T in Op["type"]]?: Change<T>}} */
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
    if (block === op.src) removeOwner(look, op.seq_id, p);
    else fillTo(look, slots, () => p);
  },
  swap_in(look, { slots }, p) {
    fillTo(look, slots, () => p);
  },
  load(look, { slots }, p) {
    fillTo(look, slots, () => p);
  },
  receive(look, { slots }, p) {
    fillTo(look, slots, () => p);
  },
  write(look, { op, slots, ahead }, p) {
    const [first, end] = slots;
    // a slot fills when its K and V arrive
    fillTo(
      look,
      slots,
      (slot) => Math.max(0, writeProgress(ahead + slot - first, op.num_tokens, p) - FILL_FROM) / (1 - FILL_FROM),
    );
    for (let slot = first; slot < end; slot++) look.fresh.add(slot);
  },
  cache(look, _motion, p) {
    look.hash = p;
  },
  free: freeBlock,
  release: freeBlock,
};

/** @param {Look} look @param {{op: {seq_id: number, to: "front" | "back" | null}}} motion @param {number} p */
function freeBlock(look, { op }, p) {
  removeOwner(look, op.seq_id, p);
  if (!op.to) return; // other sequences still hold it
  look.held = 1 - p;
  if (look.hash === 0) look.fill = look.fill.map((level) => level * (1 - p));
}

/** @param {Look} look @param {Slots} slots @param {(slot: number) => number} level */
function fillTo(look, [first, end], level) {
  for (let slot = first; slot < end; slot++) look.fill[slot] = level(slot);
}

/** @param {Look} look @param {number} seq @param {number} p */
function removeOwner(look, seq, p) {
  look.owners = look.owners
    .map((o) => (o.seq === seq ? { seq, share: o.share * (1 - p) } : o))
    .filter((o) => o.share > 0);
}
