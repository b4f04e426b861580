// The state of a run as a pure function of its log. Mirrors engine/trace/state.py and apply.py: same fields, same rules, same errors.
//
// States share what they have in common: a copy owns none of its blocks and sequences until an operation changes one
// (`blockOf` and `sequenceOf` hand out one that may be changed, `own` one of its lists). So a copy costs little, however large the
// pool and however long the sequences.

import { geometry, TraceStateError } from "./geometry.js";
import { figuresByGroup, groupOf, heldBy, heldIn, RELEASED } from "./groups.js";
import { Budget, UNITS_PER_SLOT } from "./limits.js";

export { TraceStateError };

const OWNED = Symbol("owned"); // the blocks, sequences and lists that this state alone holds
const UNBOUNDED = new Budget(false);

/** Lookups that the hit rate is taken over. */
export const RECENT_LOOKUPS = 100;

/** The state before the first record: every block free, ids in ascending order in the free queues. */
export function initialState(header) {
  const { block_size, groups, swap_space } = geometry(header);
  const numBlocks = groups.reduce((sum, group) => sum + group.num_blocks, 0);
  return {
    index: -1,
    step: 0,
    block_size,
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
    cpu_blocks: Array.from({ length: swap_space * groups.length }, (_, id) => freeCpuBlock(id)),
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
 * Fold `record` into `state`, in place, and return it. `observe(op, state)` is called after each operation took effect.
 * `budget`: what a log that was read may still copy.
 */
export function apply(state, record, observe = null, budget = UNBOUNDED) {
  if (record.index !== state.index + 1)
    throw new TraceStateError(`record ${record.index} cannot follow record ${state.index}`);
  const outputs = new Map((record.outputs ?? []).map((o) => [`${o.seq_id},${o.token_id}`, o]));
  (record.ops ?? []).forEach((op, position) => {
    try {
      if ((op.seq_id ?? null) !== null && !BEGINS.has(op.type))
        expect(state.sequences.has(op.seq_id), `there is no sequence ${op.seq_id}`);
      OPERATIONS[op.type]?.(state, op, record.index, outputs, budget); // defer explains; it changes nothing
      observe?.(op, state);
    } catch (error) {
      throw new TraceStateError(
        `record ${record.index}, operation ${position} (${op.type}) contradicts the state: ${error.message}`,
      );
    }
  });
  for (const entry of record.batch ?? []) checkEntry(state, record.index, entry);
  state.index = record.index;
  state.step = record.step;
  return state;
}

function checkEntry(state, index, { seq_id: id, start, token_ids: tokens, context_len: context }) {
  const sequence = state.sequences.get(id);
  if (!sequence) throw new TraceStateError(`record ${index} contradicts the state: its batch has a sequence ${id}`);
  const end = start + tokens.length;
  const count = sequence.token_ids.length;
  if (start < 0 || end > count || context !== end)
    throw new TraceStateError(
      `record ${index} contradicts the state: its batch has positions [${start}, ${end}) of sequence ${id}, which has ${count} tokens, and a context of ${context}`,
    );
}

const BEGINS = new Set(["submit", "fork"]); // of these the sequence is a new one

const OPERATIONS = {
  submit(state, op, index) {
    expectNew(state, op.seq_id);
    const [numTokens, numTexts] = [op.prompt_token_ids.length, op.prompt_token_bytes.length];
    expect(numTokens === numTexts, `${numTokens} prompt tokens stand for ${numTexts} texts`);
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
    queue(state, op.queue_position, op.seq_id);
  },

  admit(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.waiting, op.seq_id);
    state.running.push(op.seq_id);
    sequence.status = "running";
    const computed = op.num_cached_tokens + (op.num_swapped_tokens ?? 0);
    for (const count of [op.num_cached_tokens, computed])
      expect(
        count >= 0 && count <= sequence.token_ids.length,
        `${count} of ${sequence.token_ids.length} tokens cannot be computed`,
      );
    sequence.num_cached_tokens = op.num_cached_tokens;
    sequence.num_computed_tokens = computed;
  },

  lookup(state, op) {
    const preempted = sequenceOf(state, op.seq_id).status === "preempted";
    if (!["hit", "miss", "too_short"].includes(op.verdict) || preempted) return;
    state.recent_lookups.push([op.num_tokens, op.num_hit_tokens]);
    if (state.recent_lookups.length > RECENT_LOOKUPS) state.recent_lookups.shift();
  },

  allocate(state, op, index, _outputs, budget) {
    const block = blockOf(state, op.block_id);
    const free = queueOf(state, op.block_id);
    expect(free[0] === op.block_id, `block ${op.block_id} is not the head of its free queue`);
    free.shift();
    expect(block.block_hash === null, `block ${op.block_id} was allocated with its hash`);
    block.ref_count = 1;
    block.token_ids = [];
    block.logical = op.logical;
    block.allocated_by = op.seq_id;
    block.allocated_in = index;
    block.num_hits = 0;
    block.last_hit_in = null;
    const sequence = sequenceOf(state, op.seq_id);
    setTable(state, sequence, op.logical, op.block_id, sequence.cpu_block_table.length > 0, budget);
  },

  evict(state, op) {
    const block = blockOf(state, op.block_id);
    expect(sameBytes(block.block_hash, op.block_hash), `block ${op.block_id} does not carry that hash`);
    block.block_hash = null;
    block.token_ids = [];
  },

  share(state, op, index, _outputs, budget) {
    const block = blockOf(state, op.block_id);
    expect(op.revived === (block.ref_count === 0), `block ${op.block_id} has ${block.ref_count} owners`);
    if (op.revived) remove(queueOf(state, op.block_id), op.block_id);
    block.ref_count += 1;
    block.num_hits += 1;
    block.last_hit_in = index;
    setTable(state, sequenceOf(state, op.seq_id), op.logical, op.block_id, true, budget);
  },

  fork(state, op, index, _outputs, budget) {
    const parent = sequenceOf(state, op.parent_seq_id);
    expectNew(state, op.seq_id);
    budget.spend(2 * parent.token_ids.length + parent.block_tables.reduce((sum, table) => sum + table.length, 0));
    const child = copySequence(parent);
    child.seq_id = op.seq_id;
    child.request_id = op.request_id;
    child.submitted_in = index;
    child.parent_seq_id = op.parent_seq_id;
    child.chosen = [];
    state.sequences.set(op.seq_id, child);
    state.running.push(op.seq_id);
    for (const id of heldBy(child)) blockOf(state, id).ref_count += 1;
  },

  copy(state, op, _index, _outputs, budget) {
    const src = blockOf(state, op.src);
    expectEntry(state, op.seq_id, op.dst, op.logical);
    expect(src.ref_count > 1, `block ${op.src} has ${src.ref_count} owners, and a copy is for one of several`);
    budget.spend(UNITS_PER_SLOT * src.token_ids.length);
    src.ref_count -= 1;
    blockOf(state, op.dst).token_ids = src.token_ids.slice();
  },

  cache(state, op) {
    blockOf(state, op.block_id).block_hash = op.block_hash;
  },

  write(state, op, _index, _outputs, budget) {
    const sequence = sequenceOf(state, op.seq_id);
    const { start } = op;
    const end = start + op.num_tokens;
    expect(sequence.num_computed_tokens === start, `sequence ${op.seq_id} has computed another number of tokens`);
    expect(
      end >= start && end <= sequence.token_ids.length,
      `sequence ${op.seq_id} has ${sequence.token_ids.length} tokens, and none at [${start}, ${end})`,
    );
    budget.spend(UNITS_PER_SLOT * op.num_tokens * sequence.block_tables.length);
    for (const table of sequence.block_tables)
      for (let position = start; position < end; position++) {
        const logical = Math.floor(position / state.block_size);
        expect(table[logical] !== RELEASED, `logical block ${logical} is released`);
        const filled = own(state, blockOf(state, table[logical]), "token_ids");
        const slot = position % state.block_size;
        expect(slot <= filled.length, `slot ${slot} of block ${table[logical]} would leave a hole`);
        filled[slot] = sequence.token_ids[position];
      }
    sequence.num_computed_tokens = end;
  },

  choose(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    expect(op.position >= sequence.token_ids.length, `position ${op.position} has its token already`);
    const chosen = own(state, sequence, "chosen");
    let at = chosen.length; // they come in order, most of the time
    while (at > 0 && chosen[at - 1][0] >= op.position) at--;
    chosen.splice(at, chosen[at]?.[0] === op.position ? 1 : 0, [op.position, op.token_id]);
  },

  adjust(state, op) {
    for (const id of op.seq_ids) sequenceOf(state, id).max_tokens = op.max_tokens;
  },

  sample(state, op, _index, outputs) {
    const sequence = sequenceOf(state, op.seq_id);
    if (sequence.chosen[0]?.[0] === sequence.token_ids.length) {
      const [, tokenId] = own(state, sequence, "chosen").shift();
      expect(op.token_id === tokenId, `token ${tokenId} was chosen for this position`);
    }
    const output = outputs.get(`${op.seq_id},${op.token_id}`);
    expect(output !== undefined, `no output of sequence ${op.seq_id} holds token ${op.token_id}`);
    own(state, sequence, "token_ids").push(op.token_id);
    own(state, sequence, "token_bytes").push(output.token_bytes);
    sequence.cumulative_logprob += output.logprob;
  },

  free(state, op) {
    const table = ownTable(state, op.seq_id, op.block_id);
    expect(table.at(-1) === op.block_id, `block ${op.block_id} is not the table's last`);
    table.pop();
    while (table.at(-1) === RELEASED) table.pop();
    letGo(state, op.block_id, op.to ?? null);
  },

  release(state, op) {
    expectEntry(state, op.seq_id, op.block_id, op.logical);
    const table = ownTable(state, op.seq_id, op.block_id);
    expect(op.logical < table.length - 1, `logical block ${op.logical} is not before the table's last`);
    table[op.logical] = RELEASED;
    letGo(state, op.block_id, op.to ?? null);
  },

  preempt(state, op) {
    const sequence = sequenceOf(state, op.seq_id);
    remove(state.running, op.seq_id);
    queue(state, op.queue_position, op.seq_id);
    sequence.status = "preempted";
    sequence.num_preemptions += 1;
    if (op.mode === "recompute") sequence.num_computed_tokens = 0;
  },

  swap_out(state, op, _index, _outputs, budget) {
    const sequence = sequenceOf(state, op.seq_id);
    const cpuBlock = state.cpu_blocks[op.cpu_block_id];
    expect(cpuBlock !== undefined, `no CPU block ${op.cpu_block_id}`);
    const content = contentAt(state, op, budget);
    expect(cpuBlock.seq_id === null, `CPU block ${op.cpu_block_id} is in use`);
    state.cpu_blocks[op.cpu_block_id] = {
      cpu_block_id: op.cpu_block_id,
      seq_id: op.seq_id,
      logical: op.logical,
      token_ids: content.slice(),
    };
    own(state, sequence, "cpu_block_table").push(op.cpu_block_id);
  },

  swap_in(state, op, _index, _outputs, budget) {
    const sequence = sequenceOf(state, op.seq_id);
    contentAt(state, op, budget);
    const content = state.cpu_blocks[op.cpu_block_id]?.token_ids;
    expect(content !== undefined, `no CPU block ${op.cpu_block_id}`);
    budget.spend(UNITS_PER_SLOT * content.length);
    freeCpuBlockOf(state, sequence, op.cpu_block_id);
    blockOf(state, op.block_id).token_ids = content;
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
    expect(op.seq_ids.length === op.scores.length, `${op.seq_ids.length} sequences have ${op.scores.length} scores`);
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
    tokens_logical: state.running.reduce(
      (total, id) => total + tokensInTables(state.sequences.get(id), state.block_size),
      0,
    ),
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
  own(state, sequence, "cpu_block_table").shift();
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

/** The table of a sequence in the group of a block, to be changed. */
function ownTable(state, seqId, blockId) {
  const group = groupOf(state.block_groups, blockId);
  expect(group >= 0, `no block ${blockId}`);
  return own(state, own(state, sequenceOf(state, seqId), "block_tables"), group);
}

function expectEntry(state, seqId, blockId, logical) {
  const group = groupOf(state.block_groups, blockId);
  expect(
    group >= 0 && sequenceOf(state, seqId).block_tables[group][logical] === blockId,
    `block ${blockId} is not at ${logical}`,
  );
}

/** What the block holds that goes to the CPU store, or is overwritten from there. */
function contentAt(state, op, budget) {
  expectEntry(state, op.seq_id, op.block_id, op.logical);
  const content = blockOf(state, op.block_id).token_ids;
  budget.spend(UNITS_PER_SLOT * content.length);
  return content;
}

function queue(state, position, id) {
  expect(position >= 0 && position <= state.waiting.length, `the waiting queue has no position ${position}`);
  state.waiting.splice(position, 0, id);
}

const expectNew = (state, id) => expect(!state.sequences.has(id), `sequence ${id} exists already`);

/**
 * Put a block into the table of its group. Where the table `maySkip`, what lies between its end and `logical` is released: hits
 * of a windowed group begin at the window, and who comes back from the CPU store gets blocks for what is kept there.
 */
function setTable(state, sequence, logical, blockId, maySkip, budget) {
  expect(logical >= 0 && logical <= sequence.token_ids.length, `there is no logical block ${logical}`);
  const table = ownTable(state, sequence.seq_id, blockId);
  if (maySkip && logical > table.length) {
    budget.spend(logical - table.length);
    while (table.length < logical) table.push(RELEASED);
  }
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

/** Sequence `id`, to be changed: this state's own. Its lists are not, until `own` makes them so. */
function sequenceOf(state, id) {
  const sequence = state.sequences.get(id);
  expect(sequence !== undefined, `no sequence ${id}`);
  if (state[OWNED].has(sequence)) return sequence;
  const changed = { ...sequence };
  state[OWNED].add(changed);
  state.sequences.set(id, changed);
  return changed;
}

/** Block `id`, to be changed: this state's own. Its `token_ids` are not, until `own` makes them so. */
function blockOf(state, id) {
  const block = state.blocks[id];
  expect(block !== undefined, `no block ${id}`);
  if (state[OWNED].has(block)) return block;
  const changed = { ...block };
  state[OWNED].add(changed);
  state.blocks[id] = changed;
  return changed;
}

/** The list `key` of something that is this state's own, to be changed. */
function own(state, holder, key) {
  const list = holder[key];
  if (state[OWNED].has(list)) return list;
  const changed = list.slice();
  state[OWNED].add(changed);
  holder[key] = changed;
  return changed;
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
