// State of a run as a pure function of its log. Mirrors engine/trace/state.py and apply.py: same fields, same rules,
// same errors.

import { geometry, TraceStateError } from "./geometry.js";
import { figuresByGroup, heldIn, isOfStates } from "./groups.js";
import { expectOwn, instanceCount } from "./instances.js";
import { Budget } from "./limits.js";
import { emptyBlock, expect, owned } from "./state_access.js";
import { OPERATIONS } from "./state_operations.js";
import { freeCpuBlock } from "./state_tables.js";

/** @import {Block, Sequence, State} from "./state_access.js" */
/** @import {Op, Output, StepRecord} from "./trace.js" */

export { TraceStateError };

/** @typedef {Extract<Op, {type: "copy"}>} Copy */

/** @type {("seq_id" | "logical" | "src" | "dst")[]} */
const COPY = ["seq_id", "logical", "src", "dst"];
const UNBOUNDED = new Budget(false);

/**
 * Return the state before the first record: every block free, ids in ascending order in the free queues.
 * @param {import("./trace.js").Header} header
 * @returns {State}
 */
export function initialState(header) {
  const { block_size, groups, swap_space, finished_kept } = geometry(header);
  const numBlocks = groups.reduce((sum, group) => sum + group.num_blocks, 0);
  return {
    index: -1,
    step: 0,
    block_size,
    block_groups: groups,
    blocks: Array.from({ length: numBlocks }, (_, id) => emptyBlock(id)),
    free_queues: groups.map((group) => Array.from({ length: group.num_blocks }, (_, i) => group.first_block + i)),
    waiting: [],
    running: [],
    receiving: [],
    holding: [],
    finished: [],
    finished_kept,
    num_forgotten: 0,
    sequences: new Map(),
    cpu_blocks: Array.from({ length: swap_space * groups.length }, (_, id) => freeCpuBlock(id)),
    outside: [],
    recent_lookups: [],
  };
}

/** Return an independent copy: `apply` on one does not change the other. @param {State} state @returns {State} */
export function copyState(state) {
  owned(state).clear(); // the contents are shared from now on
  return {
    ...state,
    blocks: state.blocks.slice(),
    free_queues: state.free_queues.map((queue) => queue.slice()),
    waiting: state.waiting.slice(),
    running: state.running.slice(),
    receiving: state.receiving.slice(),
    holding: state.holding.slice(),
    finished: state.finished.slice(),
    sequences: new Map(state.sequences),
    cpu_blocks: state.cpu_blocks.slice(),
    outside: state.outside.slice(),
    recent_lookups: state.recent_lookups.slice(), // the pairs are immutable
  };
}

/**
 * Fold `record` into `state`, in place, and return it. `observe(op, state)` is called after each operation took effect.
 * `budget`: copies that the log may still perform.
 * @param {State} state
 * @param {StepRecord} record
 * @param {((op: Op, state: State) => void) | null} [observe]
 * @param {Budget} [budget]
 */
export function apply(state, record, observe = null, budget = UNBOUNDED) {
  if (record.index !== state.index + 1)
    throw new TraceStateError(`record ${record.index} cannot follow record ${state.index}`);
  const outputs = new RecordOutputs(record.outputs ?? []);
  const instance = record.instance ?? 0;
  const count = instanceCount(state.block_groups);
  if (instance < 0 || instance >= count)
    throw new TraceStateError(`record ${record.index} names instance ${instance}, which does not exist`);
  forget(state);
  /** @type {Copy | null} */
  let pendingCopy = null;
  (record.ops ?? []).forEach((op, position, ops) => {
    try {
      if (count > 1) expectOwn(state, instance, op);
      const seq = "seq_id" in op ? (op.seq_id ?? null) : null;
      if (seq !== null && !BEGINS.has(op.type)) expect(state.sequences.has(seq), `there is no sequence ${seq}`);
      if (pendingCopy || op.type === "copy")
        expect(
          op.type === "copy" && pendingCopy !== null && COPY.every((name) => op[name] === pendingCopy?.[name]),
          "a copy must directly follow the allocation that replaces its source",
        );
      const change = /** @type {any} the entry of the type that `op` has */ (OPERATIONS[op.type]);
      pendingCopy = change(state, op, record.index, outputs, budget, instance) ?? null;
      if (position === ops.length - 1) expect(!pendingCopy, "it replaces another block, but no copy follows");
      observe?.(op, state);
    } catch (error) {
      throw new TraceStateError(
        `record ${record.index}, operation ${position} (${op.type}) contradicts the state: ` +
          (error instanceof Error ? error.message : error),
      );
    }
  });
  for (const entry of record.batch ?? [])
    checkEntry(state, record.index, entry, outputs.drafts.get(entry.seq_id)?.length ?? 0);
  state.index = record.index;
  state.step = record.step;
  return state;
}

/** Drop the oldest finished sequences that hold no blocks. @param {State} state */
function forget(state) {
  const count = state.finished_kept === null ? 0 : state.finished.length - state.finished_kept;
  if (count <= 0) return;
  const holding = new Set(state.holding);
  const dropped = new Set(state.finished.filter((id) => !holding.has(id)).slice(0, count));
  state.finished = state.finished.filter((id) => !dropped.has(id));
  for (const id of dropped) state.sequences.delete(id);
  state.num_forgotten += dropped.size;
}

/** @param {State} state @param {number} index @param {import("./trace.js").BatchEntry} entry @param {number} drafts */
function checkEntry(state, index, { seq_id: id, start, token_ids: tokens, context_len: context }, drafts) {
  const sequence = state.sequences.get(id);
  if (!sequence) throw new TraceStateError(`record ${index} contradicts the state: its batch has a sequence ${id}`);
  const end = start + tokens.length;
  const count = sequence.token_ids.length;
  if (start < 0 || end - drafts > count || context !== end)
    throw new TraceStateError(
      `record ${index} contradicts the state: its batch has positions [${start}, ${end}) ` +
        `of sequence ${id}, which has ${count} tokens, and a context of ${context}`,
    );
}

/** Return the number of sequences so far, including dropped ones. @param {State} state */
export const countSequences = (state) => state.sequences.size + state.num_forgotten;

const BEGINS = new Set(["submit", "fork"]); // operations with a new sequence

/** Return the totals over all block groups, like `memory_figures` of engine/trace/state.py. @param {State} state */
export function memoryFigures(state) {
  const groups = figuresByGroup(state);
  const sum = (/** @type {keyof typeof groups[0]} */ name) => groups.reduce((total, group) => total + group[name], 0);
  const [held, cached] = [sum("blocks_held"), sum("blocks_cached")];
  return {
    num_blocks: state.blocks.length,
    block_size: state.block_size,
    blocks_held: held,
    blocks_cached: cached,
    blocks_free: state.blocks.length - held - cached,
    tokens_held: sum("tokens_held"),
    tokens_logical: [state.running, state.receiving, state.holding, state.waiting].flat().reduce((total, id) => {
      const sequence = state.sequences.get(id);
      return total + (sequence ? tokensInTables(sequence, state) : 0);
    }, 0),
    bytes_held: sum("bytes_held"),
    bytes_used: sum("bytes_used"),
    bytes_cached: sum("bytes_cached"),
    swap_blocks: state.cpu_blocks.length,
    swap_blocks_held: state.cpu_blocks.filter((b) => b.seq_id !== null).length,
    state_blocks_held: sum("state_blocks_held"),
  };
}

/**
 * Return the number of computed tokens whose block the sequence still has, summed over its tables of keys. A released
 * block was full.
 * @param {Sequence} sequence
 * @param {Pick<State, "block_size" | "block_groups">} state
 */
function tokensInTables({ num_computed_tokens: computed, block_tables: tables }, { block_size: size, block_groups }) {
  return tables.reduce(
    (sum, table, at) =>
      sum +
      (table.length && !isOfStates(block_groups[at]) ? computed - (table.length - heldIn(table).length) * size : 0),
    0,
  );
}

/**
 * Context of a record's operations: its outputs, each consumed once, and its drafts. Mirrors
 * engine/trace/record_outputs.py.
 */
export class RecordOutputs {
  /** @param {Output[]} outputs may contain a token several times if the step verified drafts */
  constructor(outputs) {
    /** @type {Map<string, Output[]>} */
    this.byToken = new Map();
    for (const output of outputs) {
      const key = `${output.seq_id},${output.token_id}`;
      const found = this.byToken.get(key);
      if (found) found.push(output);
      else this.byToken.set(key, [output]);
    }
    /** @type {Map<number, number[]>} draft tokens by sequence */
    this.drafts = new Map();
  }

  /**
   * Return the sequence's next output with this token. The last one is returned repeatedly.
   * @param {number} seq
   * @param {number} token
   */
  take(seq, token) {
    const found = this.byToken.get(`${seq},${token}`);
    return found && found.length > 1 ? found.shift() : found?.[0];
  }
}
