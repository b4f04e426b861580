// The first layer that differs, and the heights of the bars.

import assert from "node:assert/strict";
import { test } from "node:test";

import { firstDifferent, heightOf, largestOf, SAME } from "../../static/js/core/layer_differences.js";

const compared = (max, count = 10) => ({ count, max, worst: null });
const layer = (number, k, v, weights) => ({
  layer: number,
  k: compared(k),
  v: compared(v),
  weights: compared(weights),
});

test("differences up to the bound are rounding", () => {
  assert.equal(firstDifferent([layer(0, SAME, 0, 1e-3), layer(1, 0, SAME, 0)]), null);
  assert.equal(firstDifferent([]), null);
});

test("the lowest layer is named, whatever order they came in, by what it computes first", () => {
  const layers = [layer(2, 9, 9, 1), layer(1, 0, 0.5, 0.7), layer(0, 1e-6, 1e-6, 1e-6)];
  assert.deepEqual(firstDifferent(layers), { layer: 1, kind: "v", max: 0.5 });
  assert.deepEqual(firstDifferent([layer(0, 0, 0, Infinity)]), { layer: 0, kind: "weights", max: Infinity });
});

test("the largest of each kind has its layer, and the numbers of all layers are counted", () => {
  const found = largestOf([layer(0, 1e-6, 0, 2e-7), layer(1, 3e-6, 0, 1e-7)]);
  assert.deepEqual(found.k, { count: 20, max: 3e-6, layer: 1 });
  assert.deepEqual(found.weights, { count: 20, max: 2e-7, layer: 0 });
  assert.deepEqual(found.v, { count: 20, max: 0, layer: 0 });
});

test("a bar's height is the order of magnitude between 1e-9 and 1", () => {
  const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);
  near(heightOf(0), 0);
  near(heightOf(1e-12), 0);
  near(heightOf(1e-9), 0);
  near(heightOf(1e-6), 1 / 3);
  near(heightOf(0.001), 2 / 3);
  near(heightOf(7), 1);
  near(heightOf(Infinity), 1);
});
