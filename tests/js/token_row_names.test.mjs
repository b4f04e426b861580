import assert from "node:assert/strict";
import { test } from "node:test";
import { paintNames, vectorName } from "../../static/js/panels/stage/token_row_vectors.js";

test("a vector's name has its letter and its position", () => {
  assert.deepEqual([vectorName("k", 3), vectorName("v", 10), vectorName("q", 207)], ["K₃", "V₁₀", "Q₂₀₇"]);
});

test("names stand in the cells that have a vector and are wide enough for them", () => {
  const painted = [];
  const c = new Proxy(
    { measureText: (text) => ({ width: 8 * text.length }), fillText: (text, x) => painted.push([text, x]) },
    { get: (own, name) => own[name] ?? (() => undefined), set: () => true },
  );
  const layout = { width: 20, x: (p) => 20 * p };
  paintNames({ c, palette: {}, layout, first: 0, last: 12, phases: { qkv: 1 } }, { y: 0, height: 30 }, "k", (p) => ({
    vector: p === 1 ? null : new Float32Array(2),
    fresh: false,
  }));
  assert.deepEqual(
    painted.map(([text]) => text),
    ["K₀", "K₂", "K₃", "K₄", "K₅", "K₆", "K₇", "K₈", "K₉"],
  );
  assert.equal(painted[1][1], 50);
});
