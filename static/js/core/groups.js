// Block groups: each kind of layer (full attention, a sliding window) has its own pool of blocks, and each sequence a
// block table in each. Block ids are unique over all groups, so a block says its group. Pure; also reads what a
// layer's queries see.

/**
 * @typedef {Pick<import("./trace.js").Header, "engine" | "kv_bytes_per_token" | "block_groups"> & {model?:
 *   {num_layers: number}}} Header
 * @typedef {Required<import("./trace.js").BlockGroup>} Group its layers, its blocks [first_block, first_block +
 *   num_blocks), what its
 *   queries see
 * @typedef {object} GroupFigures
 * @property {number} blocks_held
 * @property {number} blocks_cached
 * @property {number} tokens_held
 * @property {number} state_blocks_held of the blocks held
 * @property {number} bytes_held
 * @property {number} bytes_used
 * @property {number} bytes_cached
 */

/** In a block table: the block that stood here was let go while the sequence runs (`release`). */
export const RELEASED = -1;

/**
 * The blocks that a table still has.
 * @param {number[]} table
 */
export const heldIn = (table) => table.filter((id) => id !== RELEASED);

/**
 * The blocks that a sequence still has, in all its tables.
 * @param {{block_tables: number[][]}} sequence
 */
export const heldBy = (sequence) => sequence.block_tables.flatMap(heldIn);

/** @typedef {import("./state_parts.js").State} State */
/** @type {WeakMap<object, Map<number, number[]>>} state -> its owners */
const owners = new WeakMap();

/**
 * The sequences whose tables have each block, by its id.
 * @param {State} state
 */
export function ownersByBlock(state) {
  let found = owners.get(state);
  if (found) return found;
  owners.set(state, (found = new Map()));
  for (const sequence of state.sequences.values())
    for (const id of heldBy(sequence)) {
      const those = found.get(id);
      if (those) those.push(sequence.seq_id);
      else found.set(id, [sequence.seq_id]);
    }
  return found;
}

/**
 * The block groups of a run, the one that sees most first. A log that names none has one, of all layers.
 * @param {Header} header @returns {Group[]}
 */
export function blockGroups(header) {
  let found = known.get(header);
  if (!found) {
    found = header.block_groups?.length ? header.block_groups.map(group) : [oneGroup(header)];
    known.set(header, found);
  }
  return found;
}

/** @type {WeakMap<object, Group[]>} header -> its groups */
const known = new WeakMap();

/** @param {import("./trace.js").BlockGroup} group @returns {Group} */
const group = ({ instance = 0, window = null, sinks = 0, state_bytes = 0, checkpoint = 0, ...rest }) => ({
  instance,
  window,
  sinks,
  state_bytes,
  checkpoint,
  ...rest,
});

/**
 * Whether a group's blocks hold states instead of keys and values: one size each, and no slots.
 * @param {Pick<Group, "state_bytes">} group
 */
export const isOfStates = ({ state_bytes }) => state_bytes > 0;

/**
 * Bytes of one block of a group.
 * @param {Pick<Group, "state_bytes" | "kv_bytes_per_token">} group @param {number} blockSize
 */
export const bytesOfBlock = ({ state_bytes, kv_bytes_per_token }, blockSize) =>
  state_bytes || blockSize * kv_bytes_per_token;

/** @param {Header} header @returns {Group} */
function oneGroup({ model, engine, kv_bytes_per_token }) {
  const layers = Array.from({ length: model?.num_layers ?? 0 }, (_, layer) => layer);
  const num_blocks = Number(engine.num_blocks);
  return group({ layers, first_block: 0, num_blocks, kv_bytes_per_token });
}

/**
 * The group (its place in `groups`) that block `id` belongs to; -1 = none.
 * @param {Group[]} groups @param {number} id
 */
export const groupOf = (groups, id) =>
  groups.findIndex(({ first_block: first, num_blocks: count }) => id >= first && id < first + count);

/**
 * The group in which `layer` of an instance keeps its keys and values.
 * @param {Group[]} groups @param {number} layer @param {number} instance
 */
export const groupOfLayer = (groups, layer, instance) =>
  Math.max(
    0,
    groups.findIndex((group) => group.instance === instance && group.layers.includes(layer)),
  );

/**
 * Whether a group's instance has others beside it: then it is to be said whose layers' blocks these are.
 * @param {Group[]} groups @param {number} at
 */
export const hasSiblings = (groups, at) =>
  groups.some(({ instance }, other) => other !== at && instance === groups[at]?.instance);

/**
 * Bytes that all pools together have room for.
 * @param {Group[]} groups @param {number} blockSize
 */
export const capacityBytes = (groups, blockSize) =>
  groups.reduce((sum, group) => sum + group.num_blocks * bytesOfBlock(group, blockSize), 0);

/**
 * What each group holds after a record.
 * @param {Pick<import("./state.js").State, "block_groups" | "block_size" | "blocks">} state @returns {GroupFigures[]}
 */
export function figuresByGroup({ block_groups: groups, block_size: size, blocks }) {
  return groups.map((group) => {
    const { first_block: first, num_blocks: count, kv_bytes_per_token: perToken } = group;
    const [each, ofStates] = [bytesOfBlock(group, size), isOfStates(group)];
    const found = { blocks_held: 0, blocks_cached: 0, tokens_held: 0 };
    for (let id = first; id < first + count; id++) {
      const { ref_count, block_hash, token_ids } = blocks[id];
      if (ref_count > 0) {
        found.blocks_held += 1;
        if (!ofStates) found.tokens_held += token_ids.length;
      } else if (block_hash !== null) found.blocks_cached += 1;
    }
    return {
      ...found,
      state_blocks_held: ofStates ? found.blocks_held : 0,
      bytes_held: found.blocks_held * each,
      bytes_used: ofStates ? found.blocks_held * each : found.tokens_held * perToken,
      bytes_cached: found.blocks_cached * each,
    };
  });
}

/**
 * Bytes that would be held if no layer let a block go: every layer as many blocks as its instance's group with full
 * attention, which keeps them all. Null where an instance has no other group, or none with full attention.
 * @param {Pick<import("./state.js").State, "block_groups" | "block_size">} state @param {GroupFigures[]} figures
 */
export function bytesIfAllKept({ block_groups: groups, block_size: size }, figures) {
  /** @type {Map<number, number>} by instance: its group that sees most, the first of its own */
  const firsts = new Map();
  const ofKeys = groups.filter((group) => !isOfStates(group));
  for (const [at, { instance }] of groups.entries()) if (!firsts.has(instance)) firsts.set(instance, at);
  if (firsts.size === ofKeys.length || groups[0].window !== null) return null;
  return ofKeys.reduce(
    (sum, { instance, kv_bytes_per_token }) =>
      sum + figures[firsts.get(instance) ?? 0].blocks_held * size * kv_bytes_per_token,
    0,
  );
}

/**
 * What a run's policy leaves layer `layer` to see: {window, sinks}, the last `window` keys and the first `sinks`. With
 * a `sliding_window_pattern` of n every n-th layer keeps all.
 * @param {Header["engine"]} engine @param {number} layer @returns {{window: number, sinks: number}}
 */
export function policyOf(engine, layer) {
  const pattern = Number(engine.sliding_window_pattern ?? 0);
  if (!engine.attention_window || (pattern && (layer + 1) % pattern === 0)) return { window: Infinity, sinks: 0 };
  return { window: Number(engine.attention_window), sinks: Number(engine.attention_sinks ?? 0) };
}

/**
 * How many keys a query of the layer sees, up to and with its own, and how many at the beginning of the text beside
 * them: the layer's own window, or what the run's policy keeps, unless the own window is no wider.
 * @param {Pick<import("./trace.js").Header, "model" | "engine">} header @param {number} layer
 */
export function sightOf({ model, engine }, layer) {
  const own = model.sliding_windows[layer] ?? Infinity;
  const policy = policyOf(engine, layer);
  return own <= policy.window ? { window: own, sinks: 0 } : policy;
}
