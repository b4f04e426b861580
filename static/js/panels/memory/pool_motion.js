// How blocks change between two records: a pure function of the state before, the record and the progress of its
// phases.

import { groupOf } from "../../core/groups.js";
import { Shadow } from "./pool_shadow.js";

/**
 * @typedef {import("../../state/moment.js").Phase} Phase
 * @typedef {import("../../state/moment.js").Progress} Progress
 * @typedef {import("../../state/store.js").State} State
 * @typedef {any} AnyOp an operation of the trace; its `type` says which fields it has
 * @typedef {{
 *   op: AnyOp, at: number, block: number, phase: Phase, from: number, to: number, slots: [number, number],
 * }} Motion
 * @typedef {"take" | "give" | "split" | "swap_out" | "swap_in"} PieceKind
 * @typedef {{
 * kind: PieceKind, seq: number, block: number, p: number, end?: "front" | "back", src?: number, cpu_block_id?: number,
 * }} Piece
 */

/** @type {Phase[]} */
const ORDER = ["schedule", "allocate", "write", "attend", "sample"];
/** @type {Record<string, Phase>} */
const BEFORE_FORWARD = {
  free: "schedule",
  release: "allocate",
  swap_out: "schedule",
  evict: "allocate",
  allocate: "allocate",
  share: "allocate",
  copy: "allocate",
  swap_in: "allocate",
  fork: "allocate",
  cache: "attend",
  write: "write",
};
/** @type {Record<string, Phase>} */
const AFTER_FORWARD = {
  free: "sample",
  release: "sample",
  evict: "sample",
  fork: "sample",
  cache: "attend",
  write: "write",
};
const GIVES = new Set(["free", "release"]);
const OVERLAP = 0.35; // how far one motion of a phase has come when the next begins

/**
 * The motions of a record: for each block that it touches, a list of `{op, at, block, phase, from, to, slots}` in
 * order, where [from, to] is its share of its phase and `slots` [first, end) what it fills. Operations on one block
 * follow each other: it loses its hash before it is taken.
 *
 * @param {State} before
 * @param {import("../../core/trace.js").StepRecord} record
 * @returns {Map<number, Motion[]>}
 */
export function motionsOf(before, record) {
  const ops = record.ops ?? [];
  const forward = ops.findIndex((op) => op.type === "write");
  const shadow = new Shadow(before);
  /** @type {Map<number, Motion[]>} */
  const blocks = new Map();
  /** @type {Map<Phase, Motion[][]>} motions that follow each other, by phase */
  const units = new Map(ORDER.map((phase) => [phase, []]));
  ops.forEach((/** @type {AnyOp} */ op, at) => {
    const wanted = (forward >= 0 && at > forward ? AFTER_FORWARD : BEFORE_FORWARD)[op.type];
    for (const block of wanted ? shadow.touched(op) : []) {
      const earlier = blocks.get(block) ?? [];
      blocks.set(block, earlier);
      // promised before the forward pass, shown after the write
      const last = earlier.findLast((m) => m.op.type !== "cache");
      const phase = last && ORDER.indexOf(last.phase) > ORDER.indexOf(wanted) ? last.phase : wanted;
      /** @type {Motion} */
      const motion = { op, at, block, phase, from: 0, to: 1, slots: shadow.slots(op, block) };
      earlier.push(motion);
      const inPhase = units.get(phase);
      const unit = last?.phase === phase ? inPhase?.find((u) => u.includes(last)) : null;
      if (unit) unit.push(motion);
      else inPhase?.push([motion]);
    }
    shadow.follow(op);
  });
  for (const [phase, list] of units) spread(list, phase === "write" || phase === "attend");
  for (const motion of [...blocks.values()].flat())
    if (motion.block === motion.op.src) together(motion, blocks.get(motion.op.dst) ?? []);
  return blocks;
}

/**
 * Both sides of a copy move at one time.
 *
 * @param {Motion} source
 * @param {Motion[]} copies
 */
function together(source, copies) {
  const copy = copies.find((m) => m.at === source.at);
  if (copy) Object.assign(source, { phase: copy.phase, from: copy.from, to: copy.to });
}

/**
 * Give each unit of a phase its share of the time, one after the other and overlapping; writes go all at once.
 *
 * @param {Motion[][]} units
 * @param {boolean} together
 */
function spread(units, together) {
  const length = together ? 1 : 1 / (1 + (units.length - 1) * OVERLAP);
  units.forEach((unit, i) => {
    const start = together ? 0 : i * length * OVERLAP;
    unit.forEach((motion, k) => {
      motion.from = start + (length * k) / unit.length;
      motion.to = start + (length * (k + 1)) / unit.length;
    });
  });
}

/**
 * Progress of one motion in [0, 1].
 *
 * @param {Motion} motion
 * @param {Progress} phases
 */
export function progressOf(motion, phases) {
  const now = phases[motion.phase];
  if (now >= 1) return 1; // shares of a phase's time need not add up to the last bit
  return Math.max(0, Math.min(1, (now - motion.from) / (motion.to - motion.from)));
}

/**
 * What moves between places now: `{kind, seq, block, p}` with `kind` `take` (from the free queue's head to the block),
 * `give` (back to the queue, `end` front or back), `split` (from block `src`), `swap_out` and `swap_in` (to and from
 * `cpu_block_id`).
 *
 * @param {Map<number, Motion[]>} motions
 * @param {Progress} phases
 * @returns {Piece[]}
 */
export function travelling(motions, phases) {
  /** @type {Piece[]} */
  const found = [];
  for (const list of motions.values()) {
    for (const motion of list) {
      const p = progressOf(motion, phases);
      if (p <= 0 || p >= 1) continue;
      const { op, block } = motion;
      /** @type {(kind: PieceKind, more?: Partial<Piece>) => void} */
      const add = (kind, more = {}) => found.push({ kind, seq: op.seq_id, block, p, ...more });
      if (op.type === "allocate" || (op.type === "share" && op.revived)) add("take");
      else if (GIVES.has(op.type) && (op.to ?? null) !== null) add("give", { end: op.to });
      else if (op.type === "copy" && block === op.dst) add("split", { src: op.src });
      else if (op.type === "swap_out" || op.type === "swap_in") add(op.type, { cpu_block_id: op.cpu_block_id });
    }
  }
  return found;
}

/**
 * The free queues in between, one a block group: those before, less what has left, with what has come back.
 *
 * @param {State} before
 * @param {Map<number, Motion[]>} motions
 * @param {Progress} phases
 */
export function movingQueues(before, motions, phases) {
  const queues = before.free_queues.map((/** @type {number[]} */ queue) => queue.slice());
  const all = [...motions.values()].flat().sort((a, b) => a.at - b.at);
  for (const motion of all) {
    if (progressOf(motion, phases) < 0.5) continue;
    const { op, block } = motion;
    const queue = queues[groupOf(before.block_groups, block)];
    const at = queue.indexOf(block);
    if ((op.type === "allocate" || op.type === "share") && at >= 0) queue.splice(at, 1);
    else if (GIVES.has(op.type) && op.to === "front") queue.unshift(block);
    else if (GIVES.has(op.type) && op.to === "back") queue.push(block);
  }
  return queues;
}
