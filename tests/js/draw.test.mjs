import assert from "node:assert/strict";
import { test } from "node:test";

import { divergingAt, divergingScale, niceCeiling } from "../../static/js/kit/colour.js";
import {
  columns,
  figureMiddle,
  miniature,
  pooledWeights,
  readProgressAt,
  rows,
  scrollTo,
  separateFigures,
} from "../../static/js/panels/stage/geometry.js";

test("zero has the background colour, and values are clipped to the scale", () => {
  const scale = divergingScale("#1f62a8", "#f4f1ea", "#b4410e");
  assert.deepEqual(divergingAt(scale, 0), [0xf4, 0xf1, 0xea]);
  assert.deepEqual(divergingAt(scale, 5), [0xb4, 0x41, 0x0e]);
  assert.deepEqual(divergingAt(scale, -1), [0x1f, 0x62, 0xa8]);
});

test("a scale's end is a round number not below the value", () => {
  assert.deepEqual([0.074, 1.2, 3, 0.31].map(niceCeiling), [0.1, 1.5, 3, 0.5]);
});

const LONG = { count: 2000, expected: 2000, blockSize: 4, width: 600, minimum: 26, maximum: 40 };

test("a pixel of the token row belongs to the column drawn there", () => {
  const layout = columns(LONG);
  for (const p of [0, 3, 4, 17, 1999]) assert.equal(layout.at(layout.x(p) + layout.width / 2), p);
  assert.equal(layout.at(layout.x(3) + layout.width + 5), null); // the gap between two blocks
  assert.equal(layout.at(-1), null);
  assert.equal(layout.at(layout.x(1999) + layout.width + 3), null); // after the last
});

test("a window includes cut columns and at most three more on each side", () => {
  for (const settings of [LONG, { ...LONG, blockSize: 2000 }, { ...LONG, count: 37 }]) {
    const layout = columns(settings);
    for (const left of [0, 1, 13, 500.5, 20_000, layout.extent - 600]) {
      const [first, last] = layout.visible(left, left + 600);
      const cut = Array.from({ length: layout.count }, (_, p) => p).filter(
        (p) => layout.x(p) < left + 600 && layout.x(p) + layout.width > left,
      );
      for (const p of cut) assert.ok(first <= p && p < last);
      assert.ok(last - first <= cut.length + 6);
    }
  }
});

test("columns stay where they are while a sequence grows", () => {
  const [few, many] = [18, 300].map((count) => columns({ ...LONG, count }));
  for (const p of [0, 5, 17]) assert.equal(few.x(p), many.x(p));
  assert.equal(few.width, many.width);
});

test("the token row scrolls only to hidden columns, with space for the next ones", () => {
  const layout = columns(LONG);
  assert.equal(scrollTo(layout, 0, 600, 5, 5), 0);
  const to = scrollTo(layout, 0, 600, 40, 40);
  assert.ok(to > 0 && layout.x(42) + layout.width <= to + 600);
  assert.ok(layout.x(44) > to + 600); // but not more room than for two
  assert.equal(scrollTo(layout, to, 600, 41, 41), to);
  assert.equal(scrollTo(layout, 0, 600, 1999, 1999), layout.extent - 600);
  assert.equal(scrollTo(layout, layout.extent - 600, 600, 0, 0), 0);
  const end = scrollTo(layout, 0, 600, 0, 500); // wider than the window: its newest part
  assert.equal(end, layout.x(500) + layout.width - 600);
});

test("in small, a sequence keeps its scale until it has doubled", () => {
  assert.deepEqual(
    [1, 64, 65, 128, 129].map((count) => miniature(count, 2000, 500).places),
    [64, 64, 128, 128, 256],
  );
  assert.equal(miniature(20, 30, 500).places, 30); // no more than can come
  const mini = miniature(100, 2000, 500);
  assert.equal(mini.position(mini.x(77) + 0.1), 77);
});

test("a strong weight that is narrower than a pixel is not lost", () => {
  const weights = new Float32Array(2000).fill(0.0001);
  weights[1234] = 0.8;
  const bins = pooledWeights({ keyStart: 0, weights }, miniature(2000, 2000, 500), 500);
  assert.ok(Math.abs(Math.max(...bins) - 0.8) < 1e-6);
  assert.equal(bins.indexOf(Math.max(...bins)), Math.floor(1234 / 4));
});

test("keys are lit in order, all of them in the end", () => {
  for (const count of [1, 3, 500]) {
    assert.equal(readProgressAt(0, count, 0), 0);
    assert.equal(readProgressAt(count - 1, count, 1), 1);
    for (let i = 1; i < count; i++) assert.ok(readProgressAt(i, count, 0.5) <= readProgressAt(i - 1, count, 0.5));
  }
});

test("a figure over the first column keeps off the names beside the token row, one over the last stays within", () => {
  const window = { left: 100, right: 300 };
  assert.equal(figureMiddle(105, 12, window, 20), 118);
  assert.equal(figureMiddle(200, 12, window, 20), 200);
  assert.equal(figureMiddle(299, 12, window, 20), 288);
});

test("a column that is scrolled out of sight has no figure at the edge", () => {
  const window = { left: 100, right: 300 };
  assert.equal(figureMiddle(79, 12, window, 20), null);
  assert.equal(figureMiddle(81, 12, window, 20), 118);
  assert.equal(figureMiddle(321, 12, window, 20), null);
});

test("columns that fit completely in the first window are counted", () => {
  const layout = columns({ count: 20, expected: 20, blockSize: 4, width: 200, minimum: 26, maximum: 40 });
  const fits = (p) => layout.x(p) + layout.width <= 200;
  const n = layout.whole(200);
  assert.ok(n > 0 && fits(n - 1) && !fits(n), String(n));
  assert.deepEqual([layout.whole(5), layout.whole(1e6)], [0, 20]);
});

test("of overlapping numbers the larger weight's is kept", () => {
  const figures = [0.29, 0.7, 0.01].map((weight, i) => ({ weight, half: 12, middle: [118, 139, 163][i] }));
  assert.deepEqual(
    separateFigures(figures).map(({ weight }) => weight),
    [0.7],
  );
  figures[2].middle = 166;
  assert.deepEqual(
    separateFigures(figures).map(({ weight }) => weight),
    [0.7, 0.01],
  );
});

test("the rows of the token row lie within its height, apart, and are high enough to be seen or not there at all", () => {
  for (let height = 0; height <= 700; height++) {
    const { attention, k, v, q } = rows(height);
    const shown = [attention, k, v, q].filter((row) => row.height > 0);
    assert.ok(
      shown.every((row, i) => i === 0 || row.y >= shown[i - 1].y + shown[i - 1].height),
      `${height}`,
    );
    if (shown.length) assert.ok(shown.at(-1).y + shown.at(-1).height <= height, `${height}`);
    assert.ok(
      [k, v, q].every((row) => row.height === 0 || row.height >= 18),
      `${height}`,
    );
  }
  assert.ok(rows(130).q.height >= 18, "what 1280 × 720 leaves has all four");
});
