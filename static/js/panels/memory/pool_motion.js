// Motions of blocks between two records: a pure function of the state before, the record and the progress of its
// phases.

import { groupOf } from "../../core/groups.js";
import { freesBlock } from "../../core/operation_kinds.js";
import { Shadow } from "./pool_shadow.js";

/** @import {Op, StepRecord} from "../../core/trace.js" */
/** @import {Phase, Progress} from "../../state/playhead.js" */
/** @import {State} from "../../state/store.js" */
/** @import {Slots} from "./pool_shadow.js" */

/**
 * Effect of an operation on one block. `at`: index of the operation in its record; [from, to]: the motion's share of
 * its phase; `slots`: slots that it fills; `ahead`: positions that a write has filled in previous blocks.
 * @template {Op["type"]} [T=Op["type"]]
 * @typedef {{
 *   op: Extract<Op, {type: T}>, at: number, block: number, phase: Phase, from: number, to: number, slots: Slots,
 *   ahead: number,
 * }} Motion
 */

/** @typedef {Map<number, Motion[]>} Motions motions of each block in order, by block id */

/**
 * Path of a moving block: `take` from the free queue's head, `give` to an end of the queue, `split` from block
 * `src`, `swap_out` and `swap_in` to and from a block of the CPU store, `load` and `store` from and to a tier outside
 * the pool, `receive` a copy of block `src` of another instance, with the size in bytes.
 *
 * @typedef {{kind: "take"} | {kind: "give", end: "front" | "back"} | {kind: "split", src: number}
 *   | {kind: "swap_out" | "swap_in", cpu_block_id: number}
 *   | {kind: "load" | "store", medium: "cpu" | "disk"} | {kind: "receive", src: number, bytes: number}} Way
 */

/**
 * @typedef {Way & {seq: number | null, block: number, p: number}} Travelling `p`: progress in (0, 1);
 *   `seq`: null if the motion is not of a single sequence
 */

/** @type {readonly Phase[]} */
const ORDER = ["schedule", "allocate", "write", "attend", "sample"];
/** @type {Partial<Record<Op["type"], Phase>>} */
const BEFORE_FORWARD = {
  free: "schedule",
  release: "allocate",
  swap_out: "schedule",
  evict: "allocate",
  allocate: "allocate",
  share: "allocate",
  copy: "allocate",
  swap_in: "allocate",
  load: "allocate",
  receive: "allocate",
  fork: "allocate",
  cache: "attend",
  store: "sample",
  write: "write",
};
/** @type {Partial<Record<Op["type"], Phase>>} */
const AFTER_FORWARD = {
  free: "sample",
  release: "sample",
  evict: "sample",
  fork: "sample",
  cache: "attend",
  store: "sample",
  write: "write",
};
const OVERLAP = 0.35; // progress of a motion at which the next one of its phase begins

/**
 * Return the motions of a record by block. Operations on one block run in sequence: for example, a block is evicted
 * before it is allocated.
 * @param {State} before @param {StepRecord} record
 * @returns {Motions}
 */
export function motionsOf(before, record) {
  const ops = record.ops ?? [];
  const forward = ops.findIndex((op) => op.type === "write");
  const shadow = new Shadow(before);
  /** @type {Motions} */
  const blocks = new Map();
  /** @type {Map<Phase, Motion[][]>} by phase: units of motions that run in sequence */
  const units = new Map();
  ops.forEach((op, at) => {
    const usualPhase = (forward >= 0 && at > forward ? AFTER_FORWARD : BEFORE_FORWARD)[op.type];
    /** @type {Map<number, number>} by block group */
    const filled = new Map();
    if (usualPhase)
      for (const block of shadow.touched(op)) {
        const earlier = listOf(blocks, block);
        // `cache` is decided before the forward pass but shown after the write
        const last = earlier.findLast((m) => m.op.type !== "cache");
        const phase = last && ORDER.indexOf(last.phase) > ORDER.indexOf(usualPhase) ? last.phase : usualPhase;
        const [slots, group] = [shadow.slots(op, block), groupOf(before.block_groups, block)];
        const ahead = filled.get(group) ?? 0;
        filled.set(group, ahead + slots[1] - slots[0]);
        const motion = { op, at, block, phase, from: 0, to: 1, slots, ahead };
        earlier.push(motion);
        const unit = last?.phase === phase ? listOf(units, phase).find((u) => u.includes(last)) : null;
        if (unit) unit.push(motion);
        else listOf(units, phase).push([motion]);
      }
    shadow.apply(op);
  });
  for (const [phase, list] of units) assignShares(list, phase === "write" || phase === "attend");
  for (const motion of [...blocks.values()].flat())
    if (motion.op.type === "copy" && motion.block === motion.op.src) synchronize(motion, listOf(blocks, motion.op.dst));
  return blocks;
}

/** Return the list of `key`, created empty if missing. @template K, V @param {Map<K, V[]>} map @param {K} key */
function listOf(map, key) {
  const existing = map.get(key);
  if (existing) return existing;
  /** @type {V[]} */
  const list = [];
  map.set(key, list);
  return list;
}

/**
 * Synchronize both sides of a copy.
 * @param {Motion} source
 * @param {Motion[]} copies motions of the destination block
 */
function synchronize(source, copies) {
  const copy = copies.find((m) => m.at === source.at);
  if (copy) Object.assign(source, { phase: copy.phase, from: copy.from, to: copy.to });
}

/**
 * Assign each unit its share of the phase's time: in sequence with overlap, or the whole phase if `isParallel`.
 * @param {Motion[][]} units @param {boolean} isParallel
 */
function assignShares(units, isParallel) {
  const length = isParallel ? 1 : 1 / (1 + (units.length - 1) * OVERLAP);
  units.forEach((unit, i) => {
    const start = isParallel ? 0 : i * length * OVERLAP;
    unit.forEach((motion, k) => {
      motion.from = start + (length * k) / unit.length;
      motion.to = start + (length * (k + 1)) / unit.length;
    });
  });
}

/** Return the progress of a motion in [0, 1]. @param {Motion} motion @param {Progress} phases */
export function progressOf(motion, phases) {
  const progress = phases[motion.phase];
  if (progress >= 1) return 1; // the shares of a phase may not sum to exactly 1
  return Math.max(0, Math.min(1, (progress - motion.from) / (motion.to - motion.from)));
}

/** Return the blocks that are currently moving. @param {Motions} motions @param {Progress} phases */
export function travelling(motions, phases) {
  /** @type {Travelling[]} */
  const found = [];
  for (const motion of [...motions.values()].flat()) {
    const p = progressOf(motion, phases);
    const way = p > 0 && p < 1 ? wayOf(motion) : null;
    if (way) found.push({ ...way, block: motion.block, p });
  }
  return found;
}

/** @param {Motion} motion @returns {(Way & {seq: number | null}) | null} null if the block does not move */
function wayOf({ op, block }) {
  if (op.type === "allocate" || (op.type === "share" && op.revived)) return { kind: "take", seq: op.seq_id };
  if (freesBlock(op)) return op.to ? { kind: "give", seq: op.seq_id, end: op.to } : null;
  if (op.type === "copy") return block === op.dst ? { kind: "split", seq: op.seq_id, src: op.src } : null;
  if (op.type === "swap_out" || op.type === "swap_in")
    return { kind: op.type, seq: op.seq_id, cpu_block_id: op.cpu_block_id };
  if (op.type === "receive") return { kind: "receive", seq: op.seq_id, src: op.from_block_id, bytes: op.num_bytes };
  if (op.type === "load") return { kind: "load", seq: op.seq_id, medium: op.medium };
  if (op.type === "store") return { kind: "store", seq: null, medium: op.medium };
  return null;
}

/** Return the bytes received from other instances so far. @param {Motions} motions @param {Progress} phases */
export function receivedBytes(motions, phases) {
  let bytes = 0;
  for (const motion of [...motions.values()].flat())
    if (motion.op.type === "receive") bytes += motion.op.num_bytes * progressOf(motion, phases);
  return bytes;
}

/** Return the blocks that are currently becoming shared. @param {Motions} motions @param {Progress} phases */
export function becomingShared(motions, phases) {
  /** @type {Set<number>} */
  const found = new Set();
  for (const motion of [...motions.values()].flat()) {
    const p = progressOf(motion, phases);
    if ((motion.op.type === "share" || motion.op.type === "fork") && p > 0 && p < 1) found.add(motion.block);
  }
  return found;
}

/**
 * Return the free queues during the record, one per block group. A block leaves or enters its queue when half of its
 * motion is done.
 * @param {State} before @param {Motions} motions @param {Progress} phases
 */
export function movingQueues(before, motions, phases) {
  const queues = before.free_queues.map((queue) => queue.slice());
  const all = [...motions.values()].flat().sort((a, b) => a.at - b.at);
  for (const motion of all) {
    if (progressOf(motion, phases) < 0.5) continue;
    const { op, block } = motion;
    const queue = queues[groupOf(before.block_groups, block)];
    const at = queue.indexOf(block);
    if ((op.type === "allocate" || op.type === "share") && at >= 0) queue.splice(at, 1);
    else if (freesBlock(op) && op.to === "front") queue.unshift(block);
    else if (freesBlock(op) && op.to === "back") queue.push(block);
  }
  return queues;
}
