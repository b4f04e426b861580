// The picture of a layer: its parts stand apart in every width, and a pooled vector keeps its largest numbers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { largestOf, layoutOf, pooled } from "../../static/js/panels/layer/geometry.js";

test("no part lies on another one or outside of the picture, whatever its width", () => {
  for (let width = 330; width < 1800; width += 7) {
    for (const first of [true, false]) {
      const layout = layoutOf({ width, height: 162 }, { first });
      const boxes = Object.entries(layout.boxes);
      for (const [name, one] of boxes) {
        assert(one.width > 8, `${name} at ${width}`);
        assert(one.x >= 0 && one.x + one.width <= width && one.y + one.height <= layout.height, `${name} at ${width}`);
        for (const [other, box] of boxes) {
          const apart = one.x + one.width < box.x || box.x + box.width < one.x;
          assert(name === other || apart || Math.abs(one.y - box.y) >= one.height, `${name}, ${other} at ${width}`);
        }
      }
    }
  }
});

test("a cell shows the number of its values that is largest without its sign", () => {
  assert.deepEqual([...pooled(Float32Array.of(1, -3, 2, 0.5, 0, 0), 3)], [-3, 2, 0]);
  const few = Float32Array.of(1, 2);
  assert.equal(pooled(few, 4), few);
  assert.equal(largestOf([Float32Array.of(1, -7), null]), 7);
});
