import assert from "node:assert/strict";
import { test } from "node:test";

import { divergingAt, divergingScale, niceCeiling } from "../../static/js/draw/colour.js";
import { columns } from "../../static/js/draw/strip.js";

test("zero is the paper, the ends are the scale's ends, values outside are clipped", () => {
  const scale = divergingScale("#1f62a8", "#f4f1ea", "#b4410e");
  assert.deepEqual(divergingAt(scale, 0), [0xf4, 0xf1, 0xea]);
  assert.deepEqual(divergingAt(scale, 5), [0xb4, 0x41, 0x0e]);
  assert.deepEqual(divergingAt(scale, -1), [0x1f, 0x62, 0xa8]);
});

test("a scale's end is a round number not below the value", () => {
  assert.deepEqual([0.074, 1.2, 3, 0.31].map(niceCeiling), [0.1, 1.5, 3, 0.5]);
});

test("a pixel of the strip belongs to the column drawn there", () => {
  const layout = columns({ count: 300, expected: 300, blockSize: 4, width: 600, minimum: 26, maximum: 40 });
  for (const p of [0, 3, 4, 17, 299]) assert.equal(layout.at(layout.x(p) + layout.width / 2), p);
  assert.equal(layout.at(layout.x(3) + layout.width + 5), null); // the gap between two blocks
  const [first, last] = layout.visible(layout.x(100), layout.x(120));
  assert.ok(first <= 100 && last >= 120 && last - first < 40);
});
