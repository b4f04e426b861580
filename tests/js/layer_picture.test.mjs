// The picture of a layer: its parts stand apart in every width, and a pooled vector keeps its largest numbers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { largestOf, layoutOf, pooled, spaced } from "../../static/js/panels/layer/geometry.js";

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

test("names above the parts of a branch do not touch, whatever the width", () => {
  // px at 12 px in a wide font, as the page has it where no other is installed
  const texts = { reads: 33, Q: 10, K: 9, V: 9, weights: 47, "Σ w·V": 34, W_O: 27, hidden: 41, W_down: 50 };
  const branches = [
    { attention_in: "reads", q: "Q", k: "K", v: "V", weights: "weights", sum: "Σ w·V", attention: "W_O" },
    { ffn_in: "reads", hidden: "hidden", ffn: "W_down" },
  ];
  for (let width = 330; width < 1800; width++)
    for (const first of [true, false]) {
      const { boxes } = layoutOf({ width, height: 162 }, { first });
      for (const names of branches) {
        let end = Number.NEGATIVE_INFINITY;
        for (const [name, text] of Object.entries(names)) {
          const [center, half] = [boxes[name].x + boxes[name].width / 2, texts[text] / 2];
          assert(center - half >= end + 2, `${text} at ${width}: ${(center - half - end).toFixed(1)} px`);
          end = center + half;
        }
      }
    }
});

test("of texts that would touch, the ones that come first stay", () => {
  const stay = (...places) =>
    spaced(
      places.map((x) => ({ x, width: 10 })),
      50,
      3,
    ).map(({ x }) => x);
  assert.deepEqual(stay(30, 38, 20, 43, 16), [30, 43, 16]);
  assert.deepEqual(stay(49, 2, 36), [45, 5]); // moved into the room, where the third then finds none
  assert.deepEqual(spaced([{ x: 25, width: 51 }], 50, 3), []);
});

test("a cell shows the number of its values that is largest without its sign", () => {
  assert.deepEqual([...pooled(Float32Array.of(1, -3, 2, 0.5, 0, 0), 3)], [-3, 2, 0]);
  const few = Float32Array.of(1, 2);
  assert.equal(pooled(few, 4), few);
  assert.equal(largestOf([Float32Array.of(1, -7), null]), 7);
});
