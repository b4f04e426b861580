// The state of a run as a pure function of its log. Mirrors engine/trace/state.py and apply.py: same fields, same rules, same errors.
//
// States share what they have in common: a copy owns none of its blocks and sequences until an operation changes one
// (`blockOf` and `sequenceOf` hand out one that may be changed). So a copy costs little, however large the pool.

import { blockGroups, figuresByGroup, groupOf, heldBy, heldIn, RELEASED } from "./groups.js";

const OWNED = Symbol("owned"); // the blocks and sequences that this state alone holds

/** Lookups that the hit rate is taken over. */
export const RECENT_LOOKUPS = 100;

/** A record does not follow from the state before it. */
export class TraceStateError extends Error {}

const MAX_LAYERS = 1 << 12; // a header that says more is damage
const MAX_BLOCKS = 1 << 20; // of a pool or a CPU store; a header that says more is damage, not to be allocated

function setting(header, name, least, most) {
  const value = header.engine[name];
  if (!Number.isInteger(value) || value < least || value > most)
    throw new TraceStateError(`the header's engine.${name} must be a whole number from ${least} to ${most}, not ${value}`);
  return value;
}

/** The header's block groups, filled in; refused where their blocks do not follow each other from 0. */
function groupsIn(header) {
  setting(header, "num_blocks", 1, MAX_BLOCKS);
  const layers = header.model?.num_layers ?? 1;
  if (!Number.isInteger(layers) || layers < 1 || layers > MAX_LAYERS)
    throw new TraceStateError(`the header's model.num_layers must be from 1 to ${MAX_LAYERS}, not ${layers}`);
  const groups = blockGroups(header);
  let next = 0;
  for (const { first_block: first, num_blocks: count } of groups) {
    if (first !== next || !Number.isInteger(count) || count < 1 || first + count > MAX_BLOCKS)
      throw new TraceStateError(`the blocks of the header's block_groups must follow each other from 0, up to ${MAX_BLOCKS} in all`);
    next += count;
  }
  return groups;
}

/** The state before the first record: every block free, ids in ascending order in the free queues. */
export function initialState(header) {
  const blockSize = setting(header, "block_size", 1, Number.MAX_SAFE_INTEGER);
  const groups = groupsIn(header);
  const numBlocks = groups.reduce((sum, group) => sum + group.num_blocks, 0);
  const swapSpace = header.engine.swap_space ? setting(header, "swap_space", 0, Math.floor(MAX_BLOCKS / groups.length)) * groups.length : 0; // each group has so many
  return {
    index: -1,
    step: 0,
    block_size: blockSize,
    block_groups: groups,
    blocks: Array.from({ length: numBlocks }, (_, id) => ({
      block_id: id,
      ref_count: 0,
      block_hash: null,
      token_ids: [],
      logical: null,
      allocated_by: null,
      allocated_in: null,
      num_hits: 0,
      last_hit_in: null,
    })),
    free_queues: groups.map((group) => Array.from({ length: group.num_blocks }, (_, i) => group.first_block + i)),
    waiting: [],
    running: [],
    finished: [],
    sequences: new Map(),
    cpu_blocks: Array.from({ length: swapSpace }, (_, id) => freeCpuBlock(id)),
    recent_lookups: [],
    [OWNED]: new Set(),
  };
}

/** An independent copy: `apply` on one leaves the other alone. */
export function copyState(state) {
  state[OWNED].clear(); // from now on what it holds is held by two
  return {
    ...state,
    blocks: state.blocks.slice(),
    free_queues: state.free_queues.map((queue) => queue.slice()),
    waiting: state.waiting.slice(),
    running: state.running.slice(),
    finished: state.finished.slice(),
    sequences: new Map(state.sequences),
    cpu_blocks: state.cpu_blocks.slice(),
    recent_lookups: state.recent_lookups.slice(), // the pairs themselves never change
    [OWNED]: new Set(),
  };
}

/**
 * Fold `record` into `state`, in place, and return it. `observe(op, state)` is called before each operation takes
 * effect and sees the state as that operation found it.
 */
export function apply(state, record, observe = null) {
  if (record.index !== state.index + 1)
    throw new TraceStateError(`record ${record.index} cannot follow record ${state.index}`);
  const outputs = new Map((record.outputs ?? []).map((o) => [`${o.seq_id},${o.token_id}`, o]));
  (record.ops ?? []).forEach((op, position) => {
    observe?.(op, state);
    try {
      OPERATIONS[op.type]?.(state, op, record.index, outputs); // defer explains; it changes nothing
    } catch (error) {
      throw new TraceStateError(
        `record ${record.index}, operation ${position} (${op.type}) contradicts the state: ${error.message}`,
      );
    }
  });
  for (const { seq_id: seqId } of record.batch ?? [])
    if (!state.sequences.has(seqId))
      throw new TraceStateError(`record ${record.index} contradicts the state: its batch has a sequence ${seqId}`);
  state.index = record.index;
  state.step = record.step;
  return state;
}

const OPERATIONS = {
  submit(state, op, index) {
    state.sequences.set(op.seq_id, {
      seq_id: op.seq_id,
      request_id: op.request_id,
      status: "waiting",
      token_ids: Array.from(op.prompt_token_ids),
      token_bytes: Array.from(op.prompt_token_bytes),
      num_prompt_tokens: op.prompt_token_ids.length,
      num_computed_tokens: 0,
      num_cached_tokens: 0,
      block_tables: state.block_groups.map(() => []),
      num_preemptions: 0,
      max_tokens: op.max_tokens,
      priority: op.priority ?? 0,
      finish_reason: null,
      submitted_in: index,
      parent_seq_id: null,
      cumulative_logprob: 0,
      cpu_block_table: [],
      rank: null,
      score: null,
      chosen: [],
    });
    state.waiting.splice(op.queue_position, 0, op.seq_id);
  },

  admit(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.waiting, op.seq_id);
    state.running.push(op.seq_id);
    sequence.status = "running";
    sequence.num_cached_tokens = op.num_cached_tokens;
    sequence.num_computed_tokens = op.num_cached_tokens + (op.num_swapped_tokens ?? 0);
  },

  lookup(state, op) {
    const preempted = sequenceOf(state, op.seq_id).status === "preempted";
    if (!["hit", "miss", "too_short"].includes(op.verdict) || preempted) return;
    state.recent_lookups.push([op.num_tokens, op.num_hit_tokens]);
    if (state.recent_lookups.length > RECENT_LOOKUPS) state.recent_lookups.shift();
  },

  allocate(state, op, index) {
    const block = blockOf(state, op.block_id);
    const queue = queueOf(state, op.block_id);
    expect(queue[0] === op.block_id, `block ${op.block_id} is not the head of its free queue`);
    queue.shift();
    expect(block.block_hash === null, `block ${op.block_id} was allocated with its hash`);
    block.ref_count = 1;
    block.token_ids = [];
    block.logical = op.logical;
    block.allocated_by = op.seq_id;
    block.allocated_in = index;
    block.num_hits = 0;
    block.last_hit_in = null;
    const sequence = sequenceOf(state, op.seq_id);
    setTable(state, sequence, op.logical, op.block_id, sequence.cpu_block_table.length > 0);
  },

  evict(state, op) {
    const block = blockOf(state, op.block_id);
    expect(sameBytes(block.block_hash, op.block_hash), `block ${op.block_id} does not carry that hash`);
    block.block_hash = null;
    block.token_ids = [];
  },

  share(state, op, index) {
    const block = blockOf(state, op.block_id);
    if (op.revived) remove(queueOf(state, op.block_id), op.block_id);
    block.ref_count += 1;
    block.num_hits += 1;
    block.last_hit_in = index;
    setTable(state, sequenceOf(state, op.seq_id), op.logical, op.block_id, true);
  },

  fork(state, op, index) {
    const child = copySequence(sequenceOf(state, op.parent_seq_id));
    child.seq_id = op.seq_id;
    child.request_id = op.request_id;
    child.submitted_in = index;
    child.parent_seq_id = op.parent_seq_id;
    child.chosen = [];
    state.sequences.set(op.seq_id, child);
    state.running.push(op.seq_id);
    for (const id of heldBy(child)) blockOf(state, id).ref_count += 1;
  },

  copy(state, op) {
    blockOf(state, op.src).ref_count -= 1;
    blockOf(state, op.dst).token_ids = blockOf(state, op.src).token_ids.slice();
  },

  cache(state, op) {
    blockOf(state, op.block_id).block_hash = op.block_hash;
  },

  write(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    expect(sequence.num_computed_tokens === op.start, `sequence ${op.seq_id} has computed another number of tokens`);
    for (const table of sequence.block_tables)
      for (let position = op.start; position < op.start + op.num_tokens; position++) {
        const logical = Math.floor(position / state.block_size);
        expect(table[logical] !== RELEASED, `logical block ${logical} is released`);
        const block = blockOf(state, table[logical]);
        const slot = position % state.block_size;
        expect(slot <= block.token_ids.length, `slot ${slot} of block ${block.block_id} would leave a hole`);
        expect(position < sequence.token_ids.length, `sequence ${op.seq_id} has no token at position ${position}`);
        block.token_ids[slot] = sequence.token_ids[position];
      }
    sequence.num_computed_tokens = op.start + op.num_tokens;
  },

  choose(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    expect(op.position >= sequence.token_ids.length, `position ${op.position} has its token already`);
    const others = sequence.chosen.filter(([position]) => position !== op.position);
    sequence.chosen = [...others, [op.position, op.token_id]].sort(([a], [b]) => a - b);
  },

  adjust(state, op) {
    for (const id of op.seq_ids) sequenceOf(state, id).max_tokens = op.max_tokens;
  },

  sample(state, op, _index, outputs) {
    const sequence = sequenceOf(state, op.seq_id);
    if (sequence.chosen[0]?.[0] === sequence.token_ids.length) {
      const [, tokenId] = sequence.chosen.shift();
      expect(op.token_id === tokenId, `token ${tokenId} was chosen for this position`);
    }
    const output = outputs.get(`${op.seq_id},${op.token_id}`);
    expect(output !== undefined, `no output of sequence ${op.seq_id} holds token ${op.token_id}`);
    sequence.token_ids.push(op.token_id);
    sequence.token_bytes.push(output.token_bytes);
    sequence.cumulative_logprob += output.logprob;
  },

  free(state, op) {
    const table = tableOf(state, op);
    expect(table.at(-1) === op.block_id, `block ${op.block_id} is not the table's last`);
    table.pop();
    while (table.at(-1) === RELEASED) table.pop();
    letGo(state, op.block_id, op.to ?? null);
  },

  release(state, op) {
    const table = tableOf(state, op);
    expect(op.logical >= 0 && op.logical < table.length - 1, `logical block ${op.logical} is not before the table's last`);
    expect(table[op.logical] === op.block_id, `block ${op.block_id} is not at ${op.logical}`);
    table[op.logical] = RELEASED;
    letGo(state, op.block_id, op.to ?? null);
  },

  preempt(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.running, op.seq_id);
    state.waiting.splice(op.queue_position, 0, op.seq_id);
    sequence.status = "preempted";
    sequence.num_preemptions += 1;
    if (op.mode === "recompute") sequence.num_computed_tokens = 0;
  },

  swap_out(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    const cpuBlock = state.cpu_blocks[op.cpu_block_id];
    expect(cpuBlock !== undefined, `no CPU block ${op.cpu_block_id}`);
    expect(tableOf(state, op)[op.logical] === op.block_id, `block ${op.block_id} is not at ${op.logical}`);
    expect(cpuBlock.seq_id === null, `CPU block ${op.cpu_block_id} is in use`);
    state.cpu_blocks[op.cpu_block_id] = {
      cpu_block_id: op.cpu_block_id,
      seq_id: op.seq_id,
      logical: op.logical,
      token_ids: blockOf(state, op.block_id).token_ids.slice(),
    };
    sequence.cpu_block_table.push(op.cpu_block_id);
  },

  swap_in(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    expect(tableOf(state, op)[op.logical] === op.block_id, `block ${op.block_id} is not at ${op.logical}`);
    const content = state.cpu_blocks[op.cpu_block_id]?.token_ids;
    freeCpuBlockOf(state, sequence, op.cpu_block_id);
    blockOf(state, op.block_id).token_ids = content.slice();
  },

  drop(state, op) {
    freeCpuBlockOf(state, sequenceOf(state, op.seq_id), op.cpu_block_id);
  },

  discard(state, op) {
    sequenceOf(state, op.seq_id).num_computed_tokens = 0;
  },

  finish(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.running.includes(op.seq_id) ? state.running : state.waiting, op.seq_id);
    state.finished.push(op.seq_id);
    sequence.status = "finished";
    sequence.finish_reason = op.reason;
  },

  rank(state, op) {
    op.seq_ids.forEach((id, rank) => {
      sequenceOf(state, id).rank = rank;
      sequenceOf(state, id).score = op.scores[rank];
    });
  },
};

/** `memory_figures` of engine/trace/state.py: the pools in numbers, added over the block groups. */
export function memoryFigures(state) {
  const groups = figuresByGroup(state);
  const sum = (name) => groups.reduce((total, group) => total + group[name], 0);
  const [held, cached] = [sum("blocks_held"), sum("blocks_cached")];
  return {
    num_blocks: state.blocks.length,
    block_size: state.block_size,
    blocks_held: held,
    blocks_cached: cached,
    blocks_free: state.blocks.length - held - cached,
    tokens_held: sum("tokens_held"),
    tokens_logical: state.running.reduce((total, id) => total + tokensInTables(state.sequences.get(id), state.block_size), 0),
    bytes_held: sum("bytes_held"),
    bytes_used: sum("bytes_used"),
    bytes_cached: sum("bytes_cached"),
    swap_blocks: state.cpu_blocks.length,
    swap_blocks_held: state.cpu_blocks.filter((b) => b.seq_id !== null).length,
  };
}

/** Computed tokens whose block the sequence still has, added over its tables; a released block was full. */
function tokensInTables({ num_computed_tokens: computed, block_tables: tables }, size) {
  return tables.reduce((sum, table) => sum + computed - (table.length - heldIn(table).length) * size, 0);
}

/** `recent_hit_rate` of engine/trace/state.py: tokens that hit over tokens asked for; null = nobody asked yet. */
export function recentHitRate(state) {
  const asked = state.recent_lookups.reduce((sum, [numTokens]) => sum + numTokens, 0);
  return asked ? state.recent_lookups.reduce((sum, [, numHit]) => sum + numHit, 0) / asked : null;
}

function freeCpuBlock(id) {
  return { cpu_block_id: id, seq_id: null, logical: null, token_ids: [] };
}

function freeCpuBlockOf(state, sequence, id) {
  expect(sequence.cpu_block_table[0] === id, `CPU block ${id} is not the sequence's first`);
  sequence.cpu_block_table.shift();
  state.cpu_blocks[id] = freeCpuBlock(id);
}

function letGo(state, id, to) {
  const block = blockOf(state, id);
  block.ref_count -= 1;
  expect((to === null) === block.ref_count > 0, `block ${id} has ${block.ref_count} owners left`);
  if (block.block_hash === null && block.ref_count === 0) block.token_ids = [];
  if (to === "front") queueOf(state, id).unshift(id);
  else if (to === "back") queueOf(state, id).push(id);
}

/** The free queue of a block's group. */
const queueOf = (state, id) => state.free_queues[groupOf(state.block_groups, id)];

/** The table of an operation's sequence in the group of its block, to be changed. */
function tableOf(state, op) {
  const group = groupOf(state.block_groups, op.block_id);
  expect(group >= 0, `no block ${op.block_id}`);
  return sequenceOf(state, op.seq_id).block_tables[group];
}

/**
 * Put a block into the table of its group. Where the table `maySkip`, what lies between its end and `logical` is released: hits
 * of a windowed group begin at the window, and who comes back from the CPU store gets blocks for what is kept there.
 */
function setTable(state, sequence, logical, blockId, maySkip) {
  expect(logical >= 0 && logical <= sequence.token_ids.length, `there is no logical block ${logical}`);
  const table = sequence.block_tables[groupOf(state.block_groups, blockId)];
  if (maySkip) while (table.length < logical) table.push(RELEASED);
  expect(logical <= table.length, `logical block ${logical} would leave a hole in the table`);
  table[logical] = blockId;
}

function copySequence(sequence) {
  return {
    ...sequence,
    token_ids: sequence.token_ids.slice(),
    token_bytes: sequence.token_bytes.slice(),
    block_tables: sequence.block_tables.map((table) => table.slice()),
    cpu_block_table: sequence.cpu_block_table.slice(),
    chosen: sequence.chosen.slice(), // the pairs themselves never change
  };
}

/** Sequence `id`, to be changed: this state's own. */
function sequenceOf(state, id) {
  const sequence = state.sequences.get(id);
  expect(sequence !== undefined, `no sequence ${id}`);
  if (state[OWNED].has(sequence)) return sequence;
  const own = copySequence(sequence);
  state[OWNED].add(own);
  state.sequences.set(id, own);
  return own;
}

/** Block `id`, to be changed: this state's own. */
function blockOf(state, id) {
  const block = state.blocks[id];
  expect(block !== undefined, `no block ${id}`);
  if (state[OWNED].has(block)) return block;
  const own = { ...block, token_ids: block.token_ids.slice() };
  state[OWNED].add(own);
  state.blocks[id] = own;
  return own;
}

function remove(list, id) {
  const at = list.indexOf(id);
  expect(at >= 0, `${id} is not in the list`);
  list.splice(at, 1);
}

function sameBytes(a, b) {
  if (a === null || b === null) return a === b;
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

function expect(condition, otherwise) {
  if (!condition) throw new Error(otherwise);
}
