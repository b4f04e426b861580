// Block groups: each kind of layer (full attention, a sliding window) has its own pool of blocks, and each sequence a block
// table in each. Block ids are unique over all groups, so a block says its group. Pure; also reads what a layer's queries see.

/** In a block table: the block that stood here was let go while the sequence runs (`release`). */
export const RELEASED = -1;

/** The blocks that a table still has. */
export const heldIn = (table) => table.filter((id) => id !== RELEASED);

/** The blocks that a sequence still has, in all its tables. */
export const heldBy = (sequence) => sequence.block_tables.flatMap(heldIn);

/**
 * The block groups of a run, the one that sees most first: [{layers, first_block, num_blocks, window, sinks, kv_bytes_per_token}].
 * A log that names none has one, of all layers.
 */
export function blockGroups(header) {
  if (!known.has(header))
    known.set(header, header.block_groups?.length ? header.block_groups.map(group) : [oneGroup(header)]);
  return known.get(header);
}

const known = new WeakMap(); // header -> its groups

const group = ({ layers, first_block, num_blocks, window = null, sinks = 0, kv_bytes_per_token }) => ({
  layers,
  first_block,
  num_blocks,
  window,
  sinks,
  kv_bytes_per_token,
});

function oneGroup({ model, engine, kv_bytes_per_token }) {
  const layers = Array.from({ length: model?.num_layers ?? 0 }, (_, layer) => layer);
  return { layers, first_block: 0, num_blocks: engine.num_blocks, window: null, sinks: 0, kv_bytes_per_token };
}

/** The group (its place in `groups`) that block `id` belongs to; -1 = none. */
export const groupOf = (groups, id) =>
  groups.findIndex(({ first_block: first, num_blocks: count }) => id >= first && id < first + count);

/** The group in which `layer` keeps its keys and values. */
export const groupOfLayer = (groups, layer) =>
  Math.max(
    0,
    groups.findIndex((group) => group.layers.includes(layer)),
  );

/** Bytes that all pools together have room for. */
export const capacityBytes = (groups, blockSize) =>
  groups.reduce((sum, group) => sum + group.num_blocks * blockSize * group.kv_bytes_per_token, 0);

/** What each group holds after a record: [{blocks_held, blocks_cached, tokens_held, bytes_held, bytes_used, bytes_cached}]. */
export function figuresByGroup({ block_groups: groups, block_size: size, blocks }) {
  return groups.map(({ first_block: first, num_blocks: count, kv_bytes_per_token: perToken }) => {
    const found = { blocks_held: 0, blocks_cached: 0, tokens_held: 0 };
    for (let id = first; id < first + count; id++) {
      const { ref_count, block_hash, token_ids } = blocks[id];
      if (ref_count > 0) {
        found.blocks_held += 1;
        found.tokens_held += token_ids.length;
      } else if (block_hash !== null) found.blocks_cached += 1;
    }
    return {
      ...found,
      bytes_held: found.blocks_held * size * perToken,
      bytes_used: found.tokens_held * perToken,
      bytes_cached: found.blocks_cached * size * perToken,
    };
  });
}

/**
 * Bytes that would be held if no layer let a block go: every layer as many blocks as the group with full attention, which
 * keeps them all. Null where there is no other group, or none with full attention.
 */
export function bytesIfAllKept({ block_groups: groups, block_size: size }, figures) {
  if (groups.length < 2 || groups[0].window !== null) return null;
  return figures[0].blocks_held * size * groups.reduce((sum, group) => sum + group.kv_bytes_per_token, 0);
}

/**
 * What a run's policy leaves layer `layer` to see: {window, sinks}, the last `window` keys and the first `sinks`. With a
 * `sliding_window_pattern` of n every n-th layer keeps all.
 */
export function policyOf(engine, layer) {
  const pattern = engine.sliding_window_pattern;
  if (!engine.attention_window || (pattern && (layer + 1) % pattern === 0)) return { window: Infinity, sinks: 0 };
  return { window: engine.attention_window, sinks: engine.attention_sinks ?? 0 };
}
