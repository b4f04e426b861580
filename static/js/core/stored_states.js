// Stored states of a sequence: the current one and those a prefix hit can start from. Pure.

import { hashKey } from "./cached_contents.js";
import { isOfStates } from "./groups.js";

/**
 * @typedef {import("./sequence_view.js").SequenceView} SequenceView
 * @typedef {{position: number, block: number, isNewest: boolean}} StoredState position after which the state was
 * stored, and its block
 */

/** @type {WeakMap<SequenceView, StoredState[]>} */
const known = new WeakMap();

/**
 * Return the states of a sequence in order, the newest last; empty for models without states. A state is stored where a
 * block of states has the hash of the keys up to there, whether or not the sequence still holds it.
 * @param {SequenceView} view
 */
export function storedStates(view) {
  let found = known.get(view);
  if (!found) known.set(view, (found = find(view)));
  return found;
}

/** @param {SequenceView} view @returns {StoredState[]} */
function find({ log, state, seq, tables, table, blockSize: size, numFilled }) {
  const at = log.groups.findIndex((group) => isOfStates(group) && group.instance === seq.instance);
  const own = tables[at];
  if (!own?.length) return [];
  const { first_block: first, num_blocks: count } = log.groups[at];
  /** @type {Map<string, number>} */
  const byHash = new Map();
  for (const { block_id, block_hash } of state.blocks.slice(first, first + count))
    if (block_hash !== null) byHash.set(hashKey(block_hash), block_id);
  /** @type {StoredState[]} */
  const kept = [];
  for (let logical = 0; (logical + 1) * size < numFilled; logical++) {
    const hash = state.blocks[table[logical]]?.block_hash ?? null;
    const block = own[logical] >= 0 ? own[logical] : hash && byHash.get(hashKey(hash));
    if (typeof block === "number") kept.push({ position: (logical + 1) * size - 1, block, isNewest: false });
  }
  const newest = own[Math.ceil(numFilled / size) - 1] ?? -1;
  if (newest >= 0) kept.push({ position: numFilled - 1, block: newest, isNewest: true });
  return kept;
}
