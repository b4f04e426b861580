// How blocks change between two records: a pure function of the state before, the record and the progress of its
// phases.

import { groupOf, heldIn } from "../../core/groups.js";
import { followTable } from "../../core/history.js";

/**
 * @typedef {import("../../state/moment.js").Phase} Phase
 * @typedef {import("../../state/moment.js").Progress} Progress
 * @typedef {import("../../state/store.js").State} State
 * @typedef {any} AnyOp an operation of the trace; its `type` says which fields it has
 * @typedef {{
 *   op: AnyOp, at: number, block: number, phase: Phase, from: number, to: number, slots: [number, number],
 * }} Motion
 * @typedef {{
 *   owners: {seq: number, share: number}[], held: number, hash: number, fill: number[], fresh: Set<number>,
 *   renewed: boolean,
 * }} Look
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

/** Tables and filled slots as the operations of one record change them; the state itself is left alone. */
class Shadow {
  /** @type {Map<number, number[][]>} */
  tables = new Map();
  /** @type {Map<number, number>} */
  filled = new Map();

  /** @param {State} state */
  constructor(state) {
    this.state = state;
  }

  /**
   * The tables of sequence `id`, one a block group.
   *
   * @param {number} id
   * @returns {number[][]}
   */
  tablesOf(id) {
    const { sequences, block_groups: groups } = this.state;
    const known = this.tables.get(id);
    if (known) return known;
    /** @type {number[][]} */
    const tables = sequences.get(id)?.block_tables ?? [];
    const copies = tables.length ? tables.map((table) => table.slice()) : Array.from(groups, () => []);
    this.tables.set(id, copies);
    return copies;
  }

  /**
   * @param {number} id
   * @param {number} block
   */
  table(id, block) {
    return this.tablesOf(id)[groupOf(this.state.block_groups, block)];
  }

  /**
   * @param {AnyOp} op
   * @returns {number[]}
   */
  touched(op) {
    if (op.type === "copy") return [op.src, op.dst];
    if (op.type === "fork") return this.tablesOf(op.parent_seq_id).flatMap(heldIn);
    if (op.type !== "write") return [op.block_id];
    const size = this.state.block_size;
    return this.tablesOf(op.seq_id).flatMap((table) =>
      table.slice(Math.floor(op.start / size), Math.ceil((op.start + op.num_tokens) / size)),
    );
  }

  /**
   * The slots of `block` that an operation fills.
   *
   * @param {AnyOp} op
   * @param {number} block
   * @returns {[number, number]}
   */
  slots(op, block) {
    const size = this.state.block_size;
    /** @param {number} n */
    const within = (n) => Math.max(0, Math.min(size, n));
    if (op.type === "copy") return [0, block === op.dst ? this.#count(op.src) : 0];
    if (op.type === "swap_in") return [0, this.state.cpu_blocks[op.cpu_block_id].token_ids.length];
    if (op.type !== "write") return [0, 0];
    const first = this.table(op.seq_id, block).indexOf(block) * size;
    return [within(op.start - first), within(op.start + op.num_tokens - first)];
  }

  /** @param {AnyOp} op */
  follow(op) {
    if (op.type === "fork")
      this.tables.set(
        op.seq_id,
        this.tablesOf(op.parent_seq_id).map((table) => table.slice()),
      );
    else if (op.block_id !== undefined && op.seq_id !== undefined) followTable(this.table(op.seq_id, op.block_id), op);
    if (op.type === "allocate") this.filled.set(op.block_id, 0);
    else if (op.type === "copy") this.filled.set(op.dst, this.#count(op.src));
  }

  /** @param {number} block */
  #count(block) {
    return this.filled.get(block) ?? this.state.blocks[block].token_ids.length;
  }
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
