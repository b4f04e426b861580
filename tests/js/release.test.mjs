import assert from "node:assert/strict";
import { test } from "node:test";
import { blockHistory } from "../../static/js/core/history.js";
import { slotOf } from "../../static/js/core/metrics.js";
import { operationsOf } from "../../static/js/core/operations.js";
import { provenanceOf } from "../../static/js/core/provenance.js";
import { blocksRead, keysRead } from "../../static/js/i18n/sentence.js";
import { motionsOf, travelling } from "../../static/js/panels/memory/pool_motion.js";
import { logOf, released } from "./histories.mjs";
import { op } from "./log_builder.mjs";

const of = (chain, kind) => chain.links.find((link) => link.kind === kind);

test("a release that contradicts the table is refused", () => {
  const steps = (release) => [
    { kind: "submit", ops: [op.submit(0, [1, 2, 3])] },
    { ops: [op.admit(0), op.allocate(0, 0, 0), op.allocate(0, 1, 1), op.write(0, 0, 3), release] },
  ];
  logOf(steps(op.release(0, 0, 0, "front")));
  for (const wrong of [
    op.release(0, 0, 0),
    op.release(0, 1, 0, "front"),
    op.release(0, 1, 1, "front"),
    op.release(0, 0, -1, "front"),
  ])
    assert.throws(() => logOf(steps(wrong)), /operation 4 \(release\) contradicts the state/);
});

test("a released position has no slot, but what was computed is still told", () => {
  const log = released();
  const table = log.stateAt(1).sequences.get(0).block_tables[0];
  assert.equal(slotOf(table, 2, 1), null);
  assert.equal(slotOf(table, 2, 2).slot, 2);
  const chain = provenanceOf(log, 2, { position: 1, seq: 2 }, { seq: 2, layer: 0, head: 0 });
  assert.equal(of(chain, "nowhere").waits, false);
  assert.deepEqual(of(provenanceOf(log, 1, { seq: 0 }), "blocks").blocks, [1, 2]);
});

test("the block shows the sequence that released it and the reason", () => {
  const log = released();
  const freed = of(provenanceOf(log, 1, { block: 0 }), "freed");
  assert.deepEqual([freed.seq, freed.to, freed.why], [0, "back", "window"]);
  assert.ok(blockHistory(log, 1, 2).some((event) => event.op.type === "release"));
  const told = operationsOf(log, 1).find((entry) => entry.type === "release");
  assert.deepEqual(
    told.parts.map(([key, values]) => [key, values.block_id]),
    [
      ["op.release", [0]],
      ["op.release.reason.window", [0]],
      ["op.release.to.back", [0]],
    ],
  );
});

test("a release gives its block to the free queue", () => {
  const log = released();
  const gives = travelling(motionsOf(log.stateAt(0), log.records[1]), {
    schedule: 1,
    allocate: 1,
    write: 1,
    attend: 1,
    sample: 0.5,
  });
  assert.ok(gives.some((motion) => motion.kind === "give" && motion.block === 0 && motion.end === "back"));
});

test("a query reads the keys that its widest layer sees, under a policy the sinks and the window", () => {
  const reads = (sliding_windows, engine) => keysRead({ header: { model: { sliding_windows }, engine } }, 100);
  assert.equal(reads([null, 8], {}), 100);
  assert.equal(reads([8, 16], {}), 16);
  assert.equal(reads([null, 8], { attention_window: 12, attention_sinks: 4 }), 16);
  assert.equal(reads([8, 10], { attention_window: 12, attention_sinks: 4 }), 10);
  const blocks = (engine) =>
    blocksRead({ header: { model: { sliding_windows: [null] }, engine: { block_size: 4, ...engine } } }, 27);
  assert.equal(blocks({}), 7);
  assert.equal(blocks({ attention_window: 8 }), 3); // positions 19 to 26
  assert.equal(blocks({ attention_window: 8, attention_sinks: 2 }), 4); // and 0, 1
});
