// Attention output of a query: weights times values, added up.

import assert from "node:assert/strict";
import { test } from "node:test";

import { outputOf, queryAt, rowsFor, weightedSum } from "../../static/js/core/attention_output.js";
import { sequenceViewAt, vectorOf } from "../../static/js/core/sequence_view.js";
import { recordAt } from "../../static/js/runs/steps.js";
import { read } from "./museum_traces.mjs";

const VALUES = [
  [1, 2],
  [10, 20],
  [100, -200],
];

test("weights times values are summed; a partial last key counts by its share", () => {
  assert.deepEqual([...weightedSum([0.5, 0.25, 0.25], VALUES)], [28, -44]);
  assert.deepEqual([...weightedSum([0.5, 0.25, 0.25], VALUES, 2)], [3, 6]);
  assert.deepEqual([...weightedSum([0.5, 0.25, 0.25], VALUES, 1.5)], [1.75, 3.5]);
  assert.deepEqual([...weightedSum([0.5], VALUES, 0)], [0, 0]);
  assert.deepEqual([...weightedSum([], [])], []);
});

test("a picture shows the largest weights in text order and sums the rest", () => {
  const output = { weights: Float32Array.of(0.1, 0.4, 0, 0.2, 0.3) };
  assert.deepEqual(rowsFor(output, 9), { shown: [0, 1, 3, 4], rest: [] });
  assert.deepEqual(rowsFor(output, 3), { shown: [1, 4], rest: [0, 3] });
  assert.deepEqual(rowsFor(output, 1), { shown: [1], rest: [0, 3, 4] });
});

test("a recorded query: the sum from the log, and that the engine's own vector was not captured there", () => {
  const log = read("slot_off_by_one-healthy");
  for (const [step, head] of [
    [1, 0],
    [2, 3],
  ]) {
    const view = sequenceViewAt(log, recordAt(log, step), 0, 1, head);
    const { missing, output } = outputOf(view);
    assert.deepEqual([missing, output.recorded, output.largest], [[], null, null]);
    assert.equal(output.positions.length, view.query + 1);
    const d = 3;
    let expected = 0;
    output.positions.forEach((position, i) => (expected += output.weights[i] * vectorOf(view, "v", position)[d]));
    assert.ok(Math.abs(output.sum[d] - expected) < 1e-9 && expected !== 0);
  }
  const last = sequenceViewAt(log, recordAt(log, 2), 0, 1, 3);
  assert.equal(outputOf(last, null), null);
  assert.equal(outputOf(last, 2), null); // that record did not compute it
  const { view, query } = queryAt(last, 2); // the prefill did
  assert.deepEqual([view.index, query], [recordAt(log, 1), 2]);
  const { output } = outputOf(view, query);
  assert.deepEqual(output.positions, [0, 1, 2]);
  assert.ok(Math.abs(output.weights.reduce((a, b) => a + b) - 1) < 1e-2);
});
