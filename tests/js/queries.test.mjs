// Requests by class in two runs: what differs, and in which order they stand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { COLUMNS, differenceOf, kindOf, sorted } from "../../static/js/panels/queries/model.js";

const NONE = { ttft_p50: null, ttft_p99: null, tpot_p50: null, tpot_p99: null, cached_share: null };
const figures = (more) => ({ requests: 1, preemptions: 0, aborted: 0, ...NONE, ...more });
const CLASSES = [
  {
    name: "16-63",
    a: figures({ requests: 5, ttft_p50: 0.2, cached_share: 0.5 }),
    b: figures({ requests: 3, ttft_p50: 0.1 }),
  },
  {
    name: "64-255",
    a: figures({ requests: 7, ttft_p50: 0.1, preemptions: 4 }),
    b: figures({ requests: 9, ttft_p50: 0.4 }),
  },
  { name: null, a: null, b: figures({ requests: 2, ttft_p50: 0.3 }) },
];
const names = (classes) => classes.map(({ name }) => name);

test("times differ by their ratio, counts and shares by their difference, and nothing by nothing", () => {
  const [first, second, third] = CLASSES;
  assert.equal(differenceOf(first, "ttft_p50"), -0.5);
  assert.ok(Math.abs(differenceOf(second, "ttft_p50") - 3) < 1e-12);
  assert.equal(differenceOf(second, "requests"), 2);
  assert.equal(differenceOf(second, "preemptions"), -4);
  assert.equal(differenceOf(first, "cached_share"), null);
  assert.equal(differenceOf(third, "requests"), null);
  const from0 = { name: "x", a: figures({ ttft_p50: 0 }), b: figures({ ttft_p50: 1 }) };
  assert.equal(differenceOf(from0, "ttft_p50"), null);
});

test("two runs are sorted by what differs, one by its figure, and what is not there comes last", () => {
  assert.deepEqual(names(sorted(CLASSES, null, true, true)), ["16-63", "64-255", null]);
  assert.deepEqual(names(sorted(CLASSES, "ttft_p50", true, true)), ["64-255", "16-63", null]);
  assert.deepEqual(names(sorted(CLASSES, "ttft_p50", false, true)), ["16-63", "64-255", null]);
  assert.deepEqual(names(sorted(CLASSES, "requests", true, false)), ["64-255", "16-63", null]);
  assert.deepEqual(names(CLASSES), ["16-63", "64-255", null], "they stay where they were");
});

test("each column is a count, a time or a share", () => {
  const kinds = Object.fromEntries(COLUMNS.map((column) => [column, kindOf(column)]));
  assert.equal(kinds.cached_share, "share");
  assert.equal(kinds.tpot_p99, "time");
  assert.equal(kinds.aborted, "count");
});
