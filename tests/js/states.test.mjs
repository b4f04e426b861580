import assert from "node:assert/strict";
import { test } from "node:test";
import { crossing } from "../../static/js/core/groups.js";
import { sequenceViewAt, storedStates } from "../../static/js/core/sequence_view.js";
import { laneAt } from "../../static/js/panels/race/figures.js";
import { rows } from "../../static/js/panels/stage/geometry.js";
import { logOf, released } from "./histories.mjs";
import { MODEL, op } from "./log_builder.mjs";

const STATE = 100; // bytes

/** Layers 0 and 1 keep a state, layer 2 keys; a state is kept after four tokens, and one moves on to the next block. */
const withStates = () =>
  logOf(
    [
      { kind: "submit", ops: [op.submit(0, [1, 2, 3, 4])] },
      {
        batch: [op.entry(0, "prefill", 0, [1, 2, 3, 4])],
        ops: [
          op.admit(0),
          ...[0, 1].map((block) => op.allocate(0, block, block)),
          op.allocate(0, 4, 1),
          op.cache(0, 0, 0, "h0", [1, 2]),
          op.cache(0, 1, 1, "h1", [3, 4]),
          op.cache(0, 4, 1, "h1", [3, 4]),
          op.write(0, 0, 4),
          op.sample(0, 5),
        ],
      },
      {
        batch: [op.entry(0, "decode", 4, [5])],
        ops: [
          op.allocate(0, 2, 2),
          op.allocate(0, 5, 2),
          op.write(0, 4, 1),
          op.release(0, 4, 1, "back", "state"),
          op.sample(0, 6),
        ],
      },
    ],
    { num_blocks: 4 },
    {
      model: { ...MODEL, layer_kinds: ["state", "state", "keys"], state_bytes: STATE },
      block_groups: [
        { layers: [0], first_block: 0, num_blocks: 4, window: null, sinks: 0, kv_bytes_per_token: 16 },
        { layers: [], first_block: 4, num_blocks: 3, window: null, sinks: 0, kv_bytes_per_token: 0 },
      ].map((group, i) => ({ ...group, state_bytes: i * STATE, checkpoint: i * 4 })),
    },
  );

const statesAt = (log, index) => storedStates(sequenceViewAt(log, index, 0, 0, 0));

test("states are shown under the newest token and at checkpoints", () => {
  const log = withStates();
  assert.deepEqual(statesAt(log, 1), [{ position: 3, block: 4, isNewest: true }]);
  assert.deepEqual(statesAt(log, 2), [
    { position: 3, block: 4, isNewest: false },
    { position: 4, block: 5, isNewest: true },
  ]);
  assert.deepEqual(statesAt(released(), 1), [], "a model without states");
});

test("states and keys weigh the same where the layers with a state have saved as much", () => {
  const { header } = withStates();
  // 100 bytes against 2 layers · 16 bytes a token: 3.125 tokens
  assert.deepEqual(crossing(header), { tokens: 4, perToken: 48 });
  assert.equal(crossing({ ...header, model: { ...header.model, layer_kinds: ["both"] } }), null);
  assert.equal(crossing(released().header), null);
});

test("a lane of a race holds its state beside the blocks of its keys", () => {
  const [first, second] = [1, 2].map((step) => laneAt(withStates(), step));
  assert.deepEqual([first.blocks, first.states, first.held, first.wasted], [2, STATE, 2 * 2 * 16 + STATE, 0]);
  // the state that the step began from is given back with it
  assert.deepEqual([second.blocks, second.states, second.held], [3, STATE, 3 * 2 * 16 + STATE]);
});

test("the row of a state lies between V and Q, and takes nothing where there is none", () => {
  for (let height = 0; height <= 700; height++) {
    const { v, state, q } = rows(height, true);
    if (state.height) assert.ok(v.y + v.height <= state.y && state.y + state.height <= q.y, `${height}`);
    assert.ok(q.y + q.height <= Math.max(height, q.y), `${height}`);
    assert.equal(rows(height).state.height, 0);
  }
  assert.equal(rows(300, true).state.height, 18);
});
