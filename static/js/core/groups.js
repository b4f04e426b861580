// Block groups: each kind of layer (full attention, sliding window) has its own pool of blocks, and each sequence one
// block table per group. Block ids are unique over all groups, so a block determines its group. Also computes the
// attention span of a layer. Pure.

import { memo } from "./folds.js";

/** @import {State} from "./state_access.js" */
/** @import {BlockGroup} from "./trace.js" */

/**
 * @typedef {Pick<import("./trace.js").Header, "engine" | "kv_bytes_per_token" | "block_groups"> & {model?:
 *   {num_layers: number}}} Header
 * @typedef {Required<BlockGroup>} Group layers, blocks [first_block, first_block + num_blocks), and attention span
 * @typedef {object} GroupFigures
 * @property {number} blocks_held
 * @property {number} blocks_cached
 * @property {number} tokens_held
 * @property {number} state_blocks_held held blocks that contain states
 * @property {number} bytes_held
 * @property {number} bytes_used
 * @property {number} bytes_cached
 */

/** Entry of a block table whose block was freed while the sequence runs (`release`). */
export const RELEASED = -1;

/** Return the blocks that a table still holds. @param {number[]} table */
export const heldIn = (table) => table.filter((id) => id !== RELEASED);

/** Return the blocks that a sequence still holds, in all its tables. @param {{block_tables: number[][]}} sequence */
export const heldBy = (sequence) => sequence.block_tables.flatMap(heldIn);

/** Return the sequences whose tables contain each block, by block id. */
export const ownersByBlock = memo((/** @type {State} */ state) => {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  for (const sequence of state.sequences.values())
    for (const id of heldBy(sequence)) {
      const owners = found.get(id);
      if (owners) owners.push(sequence.seq_id);
      else found.set(id, [sequence.seq_id]);
    }
  return found;
});

/** Return a run's block groups, the widest attention span first; without groups in the log, one of all layers. */
export const blockGroups = memo((/** @type {Header} */ header) =>
  header.block_groups?.length ? header.block_groups.map(group) : [oneGroup(header)],
);

/** @param {BlockGroup} fields @returns {Group} */
const group = (fields) => ({
  layers: fields.layers,
  first_block: fields.first_block,
  num_blocks: fields.num_blocks,
  kv_bytes_per_token: fields.kv_bytes_per_token,
  instance: fields.instance ?? 0,
  window: fields.window ?? null,
  sinks: fields.sinks ?? 0,
  state_bytes: fields.state_bytes ?? 0,
  checkpoint: fields.checkpoint ?? 0,
});

/**
 * Return whether a group's blocks hold states of fixed size instead of keys and values in slots.
 * @param {Pick<Group, "state_bytes">} group
 */
export const isOfStates = ({ state_bytes }) => state_bytes > 0;

/**
 * Return the bytes of one block of a group.
 * @param {Pick<Group, "state_bytes" | "kv_bytes_per_token">} group
 * @param {number} blockSize
 */
export const bytesOfBlock = ({ state_bytes, kv_bytes_per_token }, blockSize) =>
  state_bytes || blockSize * kv_bytes_per_token;

/** @param {Header} header @returns {Group} */
function oneGroup({ model, engine, kv_bytes_per_token }) {
  const layers = Array.from({ length: model?.num_layers ?? 0 }, (_, layer) => layer);
  const num_blocks = Number(engine.num_blocks);
  return group({ layers, first_block: 0, num_blocks, kv_bytes_per_token });
}

/** Return the group (index in `groups`) of block `id`; -1 = none. @param {Group[]} groups @param {number} id */
export const groupOf = (groups, id) =>
  groups.findIndex(({ first_block: first, num_blocks: count }) => id >= first && id < first + count);

/**
 * Return the group (index in `groups`) that stores the keys and values of `layer` of an instance.
 * @param {Group[]} groups
 * @param {number} layer
 * @param {number} instance
 */
export const groupOfLayer = (groups, layer, instance) =>
  Math.max(
    0,
    groups.findIndex((group) => group.instance === instance && group.layers.includes(layer)),
  );

/**
 * Return whether a group's instance has other groups; a label then has to name its layers.
 * @param {Group[]} groups
 * @param {number} at
 */
export const hasSiblings = (groups, at) =>
  groups.some(({ instance }, other) => other !== at && instance === groups[at]?.instance);

/** Return the capacity of all pools in bytes. @param {Group[]} groups @param {number} blockSize */
export const capacityBytes = (groups, blockSize) =>
  groups.reduce((sum, group) => sum + group.num_blocks * bytesOfBlock(group, blockSize), 0);

/**
 * Return the contents of each group after a record.
 * @param {Pick<State, "block_groups" | "block_size" | "blocks">} state
 * @returns {GroupFigures[]}
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
 * Return the bytes that would be held if no layer freed blocks: every layer with as many blocks as its instance's group
 * with full attention. Null if an instance has a single group or none with full attention.
 * @param {Pick<State, "block_groups" | "block_size">} state
 * @param {GroupFigures[]} figures
 */
export function bytesIfAllKept({ block_groups: groups, block_size: size }, figures) {
  /** @type {Map<number, number>} by instance: its first group, which has the widest span */
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
 * Return the keys that a run's policy retains in layer `layer`: the last `window` and the first
 * `sinks`. With a `sliding_window_pattern` of n, every n-th layer retains all keys.
 * @param {Header["engine"]} engine
 * @param {number} layer
 * @returns {{window: number, sinks: number}}
 */
export function policyOf(engine, layer) {
  const pattern = Number(engine.sliding_window_pattern ?? 0);
  if (!engine.attention_window || (pattern && (layer + 1) % pattern === 0)) return { window: Infinity, sinks: 0 };
  return { window: Number(engine.attention_window), sinks: Number(engine.attention_sinks ?? 0) };
}

/**
 * Return the attention span of a layer: number of last keys including the query's own, and number of sinks. The layer's
 * own window applies if it is not wider than the policy's.
 * @param {Pick<import("./trace.js").Header, "model" | "engine">} header
 * @param {number} layer
 */
export function attentionSpan({ model, engine }, layer) {
  const own = model.sliding_windows[layer] ?? Infinity;
  const policy = policyOf(engine, layer);
  return own <= policy.window ? { window: own, sinks: 0 } : policy;
}

/**
 * Return the number of tokens at which the states of a model take as many bytes as keys and values would in the same
 * layers, and the bytes per token if all layers had keys. Null if no layer has a state instead of keys.
 * @param {Pick<import("./trace.js").Header, "model" | "kv_bytes_per_token">} header
 */
export function crossing({ model, kv_bytes_per_token: perToken }) {
  const { layer_kinds: kinds = [], num_layers: withKeys, state_bytes: state = 0 } = model;
  const withState = kinds.filter((kind) => kind === "state").length;
  if (!withState || !perToken) return null;
  const each = perToken / withKeys;
  return { tokens: Math.ceil(state / (withState * each)), perToken: perToken + withState * each };
}
