// Tables and free queue after a learner's operations, and the operations that drags and taps mean.

import assert from "node:assert/strict";
import { test } from "node:test";
import { applyMoves, moveOf, tapResult } from "../../static/js/panels/lesson/block_moves.js";

/** Blocks 0 (full, with a hash) and 1 (two slots) of sequences 0 and 1; 2 and 3 free, 3 with a hash. */
const state = () => ({
  free_queues: [[2, 3]],
  sequences: new Map(
    [0, 1]
      .map((id) => [id, { seq_id: id, status: "running", block_tables: [[0, 1]] }])
      .concat([[2, { seq_id: 2, status: "finished", block_tables: [[]] }]]),
  ),
  blocks: [
    [4, 2, "h"],
    [2, 2, null],
    [0, 0, null],
    [4, 0, "g"],
  ].map(([count, refs, hash]) => ({ token_ids: Array(count).fill(1), ref_count: refs, block_hash: hash })),
});
const deed = (kind, block, seq = null, source = null) => ({ kind, block, seq, source });

test("operations move blocks between queue and tables", () => {
  const after = applyMoves(state(), [deed("copy", 2, 0, 1), deed("evict", 3), deed("allocate", 3, 1)]);
  assert.deepEqual([...after.tables], [[0, [0, 2]], [1, [0, 1, 3]]]); // biome-ignore format: one line
  assert.deepEqual(after.queue, []);
  assert.deepEqual(after.refs, [2, 1, 1, 1]);
  assert.deepEqual(after.filled, [4, 2, 2, 0]);
  assert.deepEqual(after.hashed, [true, false, false, false]);
});

test("the last owner's block goes to the front of the queue, with a hash to the back", () => {
  const both = [deed("free", 1, 0), deed("free", 1, 1), deed("free", 0, 0), deed("free", 0, 1)];
  assert.deepEqual(applyMoves(state(), both.slice(0, 1)).queue, [2, 3]);
  assert.deepEqual(applyMoves(state(), both).queue, [1, 2, 3, 0]);
});

test("the drop target determines the operation", () => {
  const free = { block: 2, from: "queue" };
  const own = { block: 1, from: 0 };
  const into = (seq, block = null) => ({ kind: "table", seq, block });
  assert.deepEqual(moveOf("allocate", free, into(0)), deed("allocate", 2, 0));
  assert.deepEqual(moveOf("share", free, into(0)), deed("share", 2, 0));
  assert.deepEqual(moveOf("copy", free, into(0, 1)), deed("copy", 2, 0, 1));
  assert.deepEqual(moveOf("allocate", own, into(1)), deed("share", 1, 1));
  assert.deepEqual(moveOf("allocate", own, { kind: "queue" }), deed("free", 1, 0));
  assert.deepEqual(moveOf("allocate", free, { kind: "tool", tool: "evict" }), deed("evict", 2));
  assert.equal(moveOf("allocate", own, into(0)), null, "back to where it came from");
  assert.equal(moveOf("allocate", free, { kind: "queue" }), null);
});

test("a tap picks up a block or performs the operation", () => {
  const free = { block: 2, from: "queue" };
  const own = { block: 1, from: 0 };
  assert.deepEqual(tapResult("allocate", null, free), free);
  assert.equal(tapResult("allocate", free, free), null, "and puts it back");
  assert.deepEqual(tapResult("free", null, own), deed("free", 1, 0));
  assert.deepEqual(tapResult("evict", null, free), deed("evict", 2));
  assert.deepEqual(tapResult("copy", own, free), deed("copy", 2, 0, 1));
  assert.deepEqual(tapResult("copy", free, own), deed("copy", 2, 0, 1));
});
