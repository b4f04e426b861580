// Forgetting under layers of different shapes, as Gemma 4's: heads and bytes are each layer's own.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./words.mjs";

import { forgettingHeads, memoryOf } from "../../static/js/core/forgetting.js";
import { TraceLog } from "../../static/js/core/log.js";
import { blocksRead, keysRead } from "../../static/js/i18n/sentence.js";
import { headName } from "../../static/js/panels/attention/head_words.js";
import { scoreFormula } from "../../static/js/panels/attention/softmax_words.js";
import { own } from "../../static/js/state/store.js";
import { header, MODEL, op, recordsOf } from "./log_builder.mjs";

/** Two KV heads of width 2 in layer 0, which has a window; one of width 4 in layer 1, which forgets `positions`. */
function forgetfulLog(positions) {
  const shapes = { num_layers: 2, layer_shapes: [[2, 2, 2], [1, 4, 4]] }; // biome-ignore format: a row a layer
  const model = { ...MODEL, ...shapes, num_kv_heads: 2, sliding_windows: [2, null] };
  const groups = [
    { layers: [0], first_block: 0, num_blocks: 4, window: 2, kv_bytes_per_token: 2 * 4 * 4 },
    { layers: [1], first_block: 4, num_blocks: 4, window: null, kv_bytes_per_token: 8 * 4 },
  ];
  const log = new TraceLog(
    header({ forget_policy: "h2o", forget_budget: 3 }, { model, block_groups: groups, kv_bytes_per_token: 64 }),
  );
  const each = positions.map(() => 0.5);
  const forget = { type: "forget", seq_id: 0, layer: 1, at: 5, positions: [positions], scores: [each] };
  const ops = [
    op.submit(0, [1, 2, 3, 4, 5]),
    op.admit(0),
    ...[0, 1, 2, 4, 5, 6].map((id, i) => op.allocate(0, id, i % 3)),
    op.write(0, 0, 5),
    { ...forget, ranks: [positions.map((_, i) => i + 1)], lowest_kept: [1] },
  ];
  for (const record of recordsOf([{ ops, batch: [op.entry(0, "prefill", 0, [1, 2, 3, 4, 5])] }])) log.append(record);
  return log;
}

test("the heads that can forget are those of layers without a window, as many as each layer has", () => {
  assert.deepEqual(forgettingHeads(forgetfulLog([0, 1]).header.model), [{ layer: 1, head: 0 }]);
});

test("forgotten bytes follow the layer's shape", () => {
  const log = forgetfulLog([0, 1]);
  const state = log.stateAt(0);
  const found = memoryOf(log, state, state.sequences.get(0));
  assert.deepEqual([found.pairs, found.maskedBytes], [2, 2 * (4 + 4) * 4]);
  assert.deepEqual([found.packedBlocks, found.moves, found.movedBytes], [1, 3, 3 * 32]); // 3 kept of 5: 2 blocks of 3
});

test("a sentence counts the keys and blocks that the layer's own heads read", () => {
  const log = forgetfulLog([0, 1, 2, 3]);
  assert.equal(keysRead(log, 6, [1], 0), 2);
  assert.equal(blocksRead(log, 6, [1], 0), 1);
});

test("a head's name and its formula follow the layer's shape", () => {
  const log = forgetfulLog([0, 1]);
  own.log.value = log;
  assert.match(headName(0, 1), /KV head 1/);
  assert.match(headName(1, 1), /KV head 0/);
  assert.match(scoreFormula({ log, layer: 1 }, { scaling: 0.5, softcap: null }).formula, /√4/);
});
