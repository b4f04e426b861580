// The comparison of two runs, on traces of each exhibit as the engine wrote them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { laterWeights } from "../../static/js/core/attention.js";
import { firstDifferent, largestOf } from "../../static/js/core/layer_differences.js";
import { attentionRow } from "../../static/js/core/sequence_view.js";
import * as arrays from "../../static/js/panels/museum/arrays.js";
import * as decisions from "../../static/js/panels/museum/evidence.js";
import * as evidence from "../../static/js/panels/museum/evidence.js";
import { layerDifferences } from "../../static/js/panels/museum/layers.js";
import { recordAt, stepRecords } from "../../static/js/runs/steps.js";
import { firstTokenDifference, labelOf, sequencesAt } from "../../static/js/runs/tokens.js";
import { EXHIBITS, read, twins } from "./museum_traces.mjs";

const END = 1000;

const words = (tokens) => tokens.map(labelOf).join("");

for (const id of EXHIBITS)
  test(`${id}: a run beside itself shows nothing, and a healthy one has no contradiction`, () => {
    const logs = [read(`${id}-healthy`), read(`${id}-healthy`)];
    const count = stepRecords(logs[0]).length;
    assert.equal(firstTokenDifference(logs, count), null);
    assert.equal(decisions.firstDecisionDifference(logs, count), null);
    assert.equal(evidence.firstContradiction(logs, count), null);
    assert.equal(arrays.firstKeyDifference(logs, count), null);
    assert.deepEqual(evidence.objections(logs[1], count), []);
    for (let step = 1; step <= count; step++) {
      assert.equal(arrays.aboveDiagonal(logs[1], step), null);
      for (const { seq_id } of sequencesAt(logs, step)) {
        assert.equal(arrays.shiftedKeys(logs[1], step, seq_id), null);
        assert.equal(arrays.rotatedKey(logs, step, seq_id), null);
      }
    }
  });

test("one slot too far: the books agree, the weights are those of the key before", () => {
  const logs = twins("slot_off_by_one");
  assert.deepEqual(evidence.objections(logs[1], END), []);
  assert.equal(decisions.firstDecisionDifference(logs, 2), null);
  assert.equal(evidence.firstContradiction(logs, 2), null);
  const { seq_id, place, step } = firstTokenDifference(logs, 2);
  assert.deepEqual([seq_id, place, step], [0, 0, 1]);
  assert.deepEqual(evidence.lastWrites(logs[1], 2), evidence.lastWrites(logs[0], 2));
  assert.deepEqual(evidence.lastWrites(logs[1], 2), [{ seq_id: 0, position: 16, block: 4, offset: 0 }]); // 16 fill 4 blocks
  const moved = arrays.shiftedKeys(logs[1], 2, 0);
  assert.equal(moved.by, -1);
  assert.ok(moved.fits < 1e-3 && moved.unmoved > 0.5, JSON.stringify(moved));
  const { layers } = arrays.keyDifferences(logs, 1, 0);
  assert.ok(layers[0].every((value) => value === 0)); // before any attention
  assert.ok(layers[1].every((value) => value > 0.01));
  assert.ok(layers[2].every((value) => value === null)); // not captured
});

test("no copy: one slot, two writers, and the first writer reads the other's token", () => {
  const logs = twins("no_copy_at_shared_write");
  const [first] = evidence.objections(logs[1], END);
  assert.deepEqual([first.step, first.rule, first.block_id], [2, "shared_write", 4]);
  // position 18 of 18 + 1
  assert.deepEqual(evidence.contradictions(logs[1], 2), [{ kind: "shared_write", seqs: [0, 1], block: 4, offset: 2 }]);
  assert.deepEqual(decisions.firstDecisionDifference(logs, END), { step: 2 });
  const [healthy, faulty] = decisions.differingDecisions(logs, 2);
  assert.deepEqual(
    healthy.map((entry) => entry.type),
    ["allocate", "copy"],
  );
  assert.deepEqual(faulty, []);
  const [foreign] = evidence.contradictions(logs[1], 4);
  assert.deepEqual([foreign.kind, foreign.seq_id, foreign.blocks], ["foreign", 0, [4]]);
  assert.equal(words(foreign.own).slice(0, 3), words(foreign.there).slice(0, 3)); // the prompt's tail and one output
  assert.notEqual(words(foreign.own), words(foreign.there));
  assert.equal(firstTokenDifference(logs, 3), null); // not yet there
  assert.equal(firstTokenDifference(logs, 4).step, 4);
});

test("a stale hash: the third request hits 12 tokens and finds another poem there", () => {
  const logs = twins("stale_hash_after_reallocation");
  const decided = decisions.firstDecisionDifference(logs, END).step;
  assert.equal(decided, 33); // 16 tokens each for two requests, one at a time
  const hits = logs.map(
    (log) => log.records[recordAt(log, decided)].ops.find((op) => op.type === "lookup").num_hit_tokens,
  );
  assert.deepEqual(hits, [0, 12]);
  const [foreign] = evidence.contradictions(logs[1], decided);
  assert.deepEqual([foreign.seq_id, foreign.blocks, foreign.own.length], [2, [0, 1, 2], 12]);
  assert.equal(words(foreign.own), "春江潮水连海平，海上明月");
  assert.notEqual(words(foreign.there), words(foreign.own));
  assert.deepEqual(evidence.firstContradiction(logs, decided).step, decided);
  assert.equal(evidence.firstContradiction(logs, decided - 1), null);
  assert.ok(
    evidence
      .objections(logs[1], decided)
      .some(({ step, rule, block_id }) => step === decided && rule === "stale_hit" && block_id === 0),
  );
});

test("output lost: the log gave tokens that are not computed after the preemption", () => {
  const logs = twins("output_lost_at_preemption");
  const lost = evidence.firstContradiction(logs, END);
  assert.equal(lost.kind, "forgotten");
  const log = logs[1];
  const before = log.stateAt(recordAt(log, lost.step) - 1).sequences.get(lost.seq_id);
  assert.equal(lost.known, before.token_ids.length);
  assert.equal(lost.computed, before.num_prompt_tokens + 1); // the prompt and the last token
  assert.equal(before.num_preemptions, 1);
  assert.ok(firstTokenDifference(logs, END).step >= lost.step);
  const [[healthy, faulty]] = decisions
    .sharedDecisions(logs, lost.step - 1)
    .filter(([entry]) => entry.type === "preempt");
  assert.deepEqual([healthy.seq, faulty.seq], [lost.seq_id, lost.seq_id]); // both preempted it; only one forgot
  assert.notDeepEqual(healthy.later, faulty.later); // it costs the healthy run more tokens to compute again
  assert.deepEqual(evidence.objections(log, END), []);
});

test("no causal mask: weight above the diagonal, in the prefill alone", () => {
  const logs = twins("missing_causal_mask");
  const above = arrays.aboveDiagonal(logs[1], 1);
  assert.ok(above.weight > 0.5 && above.key > above.query);
  assert.equal(arrays.aboveDiagonal(logs[0], 1), null);
  assert.equal(arrays.aboveDiagonal(logs[1], 2), null); // decoding: nothing comes after
  const rows = arrays.attentionRows(logs[1], 1, 0, above.layer, above.head);
  assert.equal(rows.length, 18);
  assert.equal(rows[above.query].weights[above.key], above.weight);
  const row = attentionRow(logs[1], stepRecords(logs[1])[0], 0, above.layer, above.head, above.query); // what the stage draws
  assert.deepEqual(
    [laterWeights(row, above.query).position, laterWeights(row, above.query).weight],
    [above.key, above.weight],
  );
  assert.equal(
    laterWeights(attentionRow(logs[0], stepRecords(logs[0])[0], 0, above.layer, above.head, above.query), above.query),
    null,
  );
  const { layers } = arrays.keyDifferences(logs, 1, 0);
  assert.ok(layers[0].every((value) => value === 0));
  assert.ok(layers[1].slice(0, -1).every((value) => value > 0.01));
  assert.equal(layers[1].at(-1), 0); // the last token rightly sees all
  assert.equal(arrays.rotatedKey(logs, 1, 0), null);
});

test("positions restarted: keys of the second chunk are as long but turned", () => {
  const logs = twins("rope_restarted_at_chunk");
  const budget = logs[0].header.engine.max_num_batched_tokens;
  assert.equal(arrays.rotatedKey(logs, 1, 0), null);
  assert.equal(arrays.rotatedKey(logs, 2, 0).position, budget);
  const first = arrays.firstKeyDifference(logs, END);
  assert.deepEqual([first.step, first.layer, first.position], [2, 0, budget]);
  const { layers } = arrays.keyDifferences(logs, 2, 0);
  assert.ok(layers[0].slice(0, budget).every((value) => value === 0));
  assert.ok(layers[0].slice(budget).every((value) => value > 0.01));
  assert.ok(arrays.mostDifferentHead(logs, 2, 0).most > 0.5);
  assert.equal(arrays.mostDifferentHead(logs, 1, 0).most, 0);
});

test("earlier steps show past differences, and searches resume", () => {
  const logs = twins("no_copy_at_shared_write");
  for (const step of [1, 3, 5, 2]) {
    const [seq] = sequencesAt(logs, step);
    assert.deepEqual(
      seq.lanes.map((lane) => lane.length),
      [step, step],
    );
    assert.equal(decisions.firstDecisionDifference(logs, step)?.step ?? null, step >= 2 ? 2 : null);
  }
  assert.deepEqual(
    sequencesAt(logs, 0).map((seq) => seq.lanes.flat()),
    [[]],
  ); // one prompt, not forked yet
});

test("objections of older logs are sentences alone", () => {
  assert.deepEqual(evidence.objectionsIn({ integrity: "block 4 is shared; another" }), [
    { rule: "", text: "block 4 is shared" },
    { rule: "", text: "another" },
  ]);
  assert.deepEqual(evidence.objectionsIn({ integrity: "" }), []);
  assert.deepEqual(evidence.objectionsIn({}), []);
});

test("the first layer that differs is the lowest that the fault reaches while both runs have the same tokens", () => {
  const first = (id, step = 1) => {
    const found = firstDifferent(layerDifferences(twins(id), step, 0));
    return found && [found.layer, found.kind];
  };
  assert.deepEqual(first("slot_off_by_one"), [0, "weights"]); // K of layer 0 is right, its reader takes the neighbour's
  assert.ok(largestOf(layerDifferences(twins("slot_off_by_one"), 1, 0)).k.count > 0);
  assert.deepEqual(first("missing_causal_mask"), [0, "weights"]); // before any attention K and V are the same
  for (const id of EXHIBITS) {
    const same = layerDifferences([read(`${id}-healthy`), read(`${id}-healthy`)], 1, 0);
    assert.deepEqual([firstDifferent(same), largestOf(same).k.max], [null, 0]);
  }
});

test("tokens that came after the first difference are no difference of a layer", () => {
  const logs = twins("missing_causal_mask");
  const [early, late] = [1, 3].map((step) => layerDifferences(logs, step, 0));
  assert.equal(late[0].k.max, early[0].k.max); // other tokens have other keys in layer 0
});
