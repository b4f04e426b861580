// Effects of a monitored server's operations on the state. Contents are at places, as physical blocks are unknown.
// Mirrors engine/trace/observing.py: same rules, same errors.

import { groupOf } from "./groups.js";
import { ownGroups } from "./instances.js";
import { MAX_BLOCKS } from "./limits.js";
import { blockOf, emptyBlock, expect } from "./state_access.js";
import { sameBytes } from "./state_tables.js";

/** @import {Operations} from "./state_operations.js" */
/** @import {OutsideBlock, State} from "./state_access.js" */

/** @type {Pick<Operations, "stored" | "removed" | "known_since">} */
export const OBSERVED = {
  stored(state, op, index, _outputs, budget, instance) {
    const [block, outside] = placeOf(state, instance, op, true);
    const target = block ?? outside;
    if (op.again) {
      expect(sameBytes(target.block_hash, op.block_hash), "the place does not have that content");
      if (block) block.last_hit_in = index;
      return;
    }
    expect(target.block_hash === null, "the place has content already");
    budget.spend(op.token_ids.length);
    target.block_hash = op.block_hash;
    // a longer one belongs to a group with larger blocks, and only the operation has it
    target.token_ids = op.token_ids.length <= state.block_size ? Array.from(op.token_ids) : [];
    if (outside) outside.medium = op.medium;
    if (!block) return;
    expect(block.ref_count === 0, `block ${block.block_id} has owners, which a monitored server does not report`);
    block.allocated_in = index;
    block.last_hit_in = null;
    block.num_hits = 0;
  },

  removed(state, op, _index, _outputs, _budget, instance) {
    const [block, outside] = placeOf(state, instance, op, false);
    expect(sameBytes((block ?? outside).block_hash, op.block_hash), "the place does not have that content");
    if ((op.num_left ?? 0) > 0) return; // copies remain
    if (block) state.blocks[block.block_id] = emptyBlock(block.block_id);
    else if (outside) state.outside[outside.place] = emptyPlace(outside.place, instance);
  },

  known_since(state, _op, _index, _outputs, budget, instance) {
    for (const index of ownGroups(state.block_groups, instance)) {
      const { first_block: first, num_blocks: count } = state.block_groups[index];
      budget.spend(count);
      for (let id = first; id < first + count; id++) {
        const { ref_count: refs, block_hash: hash } = state.blocks[id];
        expect(refs === 0, `block ${id} has owners, which a monitored server does not report`);
        if (hash !== null) state.blocks[id] = emptyBlock(id);
      }
    }
    for (const { place, instance: owner, block_hash: hash } of state.outside)
      if (owner === instance && hash !== null) state.outside[place] = emptyPlace(place, instance);
  },
};

/** @param {number} place @param {number} instance @returns {OutsideBlock} */
const emptyPlace = (place, instance) => ({ place, instance, medium: "", block_hash: null, token_ids: [] });

/**
 * Return the mutable place that an operation names: a block of the instance's pool, or one outside it.
 * @param {State} state
 * @param {number} instance
 * @param {{place: number, outside?: boolean}} op
 * @param {boolean} mayGrow
 * @returns {[import("./state_access.js").Block, null] | [null, OutsideBlock]}
 */
function placeOf(state, instance, { place, outside = false }, mayGrow) {
  if (!outside) {
    const block = blockOf(state, place);
    const owner = state.block_groups[groupOf(state.block_groups, place)]?.instance;
    expect(owner === instance, `block ${place} is of another instance`);
    return [block, null];
  }
  const { outside: places } = state;
  if (mayGrow && place === places.length && place < MAX_BLOCKS) places.push(emptyPlace(place, instance));
  expect(places[place] !== undefined, `there is no place ${place} outside the pool`);
  expect(places[place].instance === instance, `place ${place} is of another instance`);
  places[place] = { ...places[place] };
  return [null, places[place]];
}
