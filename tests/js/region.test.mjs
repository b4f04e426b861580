import assert from "node:assert/strict";
import { test } from "node:test";

import { firstFit, fragmentation, holesOf } from "../../static/js/core/state_tables.js";
import { partsOf } from "../../static/js/panels/memory/region.js";

const GROUP = { first_block: 0, num_blocks: 12 };
const blocks = (counts) => counts.map((ref_count, block_id) => ({ block_id, ref_count }));

test("holes are neighbouring free blocks; the first that is large enough is the fit", () => {
  const holes = holesOf(blocks([1, 1, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0]), GROUP);
  assert.deepEqual(holes, [
    { block_id: 2, num_blocks: 3 },
    { block_id: 6, num_blocks: 1 },
    { block_id: 8, num_blocks: 4 },
  ]);
  assert.equal(firstFit(holes, 1).block_id, 2);
  assert.equal(firstFit(holes, 4).block_id, 8);
  assert.equal(firstFit(holes, 5), undefined); // though 8 are free
  assert.deepEqual(fragmentation(holes), { free: 8, largest: 4 });
  assert.deepEqual(fragmentation([]), { free: 0, largest: 0 });
});

test("the region has pieces and holes in order, and says how far each piece is filled", () => {
  const sequence = (seq_id, table, num_computed_tokens) => [
    seq_id,
    { seq_id, block_tables: [table], num_computed_tokens },
  ];
  const state = {
    block_size: 4,
    block_groups: [GROUP],
    blocks: blocks([0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0]),
    sequences: new Map([sequence(0, [], 9), sequence(3, [8, 9], 8), sequence(1, [2, 3, 4], 6)]),
  };
  assert.deepEqual(partsOf(state), [
    { block_id: 0, num_blocks: 2, seq: null, filled: 0 },
    { block_id: 2, num_blocks: 3, seq: 1, filled: 1.5 }, // 6 tokens of 4 a block
    { block_id: 5, num_blocks: 3, seq: null, filled: 0 },
    { block_id: 8, num_blocks: 2, seq: 3, filled: 2 },
    { block_id: 10, num_blocks: 2, seq: null, filled: 0 },
  ]);
});
