// The nodes of a placement: who is where.

import assert from "node:assert/strict";
import test from "node:test";
import { placed } from "../../static/js/scale/sections/placement/cluster.js";

const option = (kind, replicas, tensor_parallel, stages, gpu = "a") => ({
  kind,
  replicas,
  tensor_parallel,
  stages,
  gpu,
});
const letters = (nodes) => nodes.map((node) => node.map((kind) => kind?.[0] ?? ".").join(""));

test("GPUs that split a layer are in one node, and gaps are filled", () => {
  const options = [option("prefill", 3, 2, 1), option("decode", 1, 1, 3)];
  assert.deepEqual(letters(placed(options, 3, 4, false)), ["pppp", "ppdd", "d..."]);
  assert.deepEqual(letters(placed([option("prefill", 1, 2, 1), option("decode", 2, 4, 1)], 3, 4, false)), [
    "pp..",
    "dddd",
    "dddd",
  ]);
});

test("a node has GPUs of one kind", () => {
  const options = [option("prefill", 1, 2, 1, "h"), option("decode", 1, 2, 1, "a")];
  assert.deepEqual(letters(placed(options, 3, 4, false)), ["pp..", "dd..", "...."]);
});

test("side by side, each stage has its node", () => {
  const options = [option("prefill", 2, 1, 2), option("decode", 4, 1, 2)]; // two groups of one and two
  assert.deepEqual(letters(placed(options, 5, 4, true)), ["pdd.", "pdd.", "pdd.", "pdd.", "...."]);
});
