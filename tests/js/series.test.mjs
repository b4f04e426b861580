import assert from "node:assert/strict";
import { test } from "node:test";
import { outlyingGap } from "../../static/js/core/metrics.js";
import { csvOf, drawnGaps } from "../../static/js/core/series.js";
import { roofs } from "../../static/js/net/rooflines.js";
import {
  AXIS_HEIGHT,
  budgetScale,
  GUTTER,
  labelEvery,
  rowsFit,
  tracksLayout,
  visibleRecords,
} from "../../static/js/panels/scheduler/geometry.js";
import { connection, own } from "../../static/js/state/store.js";

const HEADER = { kv_bytes_per_token: 16, engine: { block_size: 2, num_blocks: 4 } };
const memory = (used, held, cached) => ({
  num_blocks: 4,
  block_size: 2,
  bytes_used: used,
  bytes_held: held,
  bytes_cached: cached,
});
const RECORDS = [
  { index: 0, kind: "submit", step: 0, timing: {}, memory: memory(0, 0, 0) },
  {
    index: 1,
    kind: "step",
    step: 1,
    batch: [{ phase: "prefill" }],
    timing: { schedule: 0.1, prepare: 0.2, forward: 2, sample: 0.3 },
    work: { flops: 800, weight_bytes: 100, kv_read_bytes: 60, kv_write_bytes: 40 },
    memory: memory(80, 96, 0),
  },
  { index: 2, kind: "step", step: 2, batch: [], timing: { schedule: 0.1 }, memory: memory(0, 0, 32) },
];
const _log = { header: HEADER, records: RECORDS };

test("one gap that is three times as long as the next one is told apart from the mean of the others", () => {
  assert.deepEqual(outlyingGap([12, 3, 4, 2]), { seconds: 12, rest: 3 });
  assert.equal(outlyingGap([11, 3, 4, 2]), null, "a long one among others");
  assert.equal(outlyingGap([12, 12, 1, 1, 1]), null, "two slow steps are no exception");
  assert.equal(outlyingGap([100, 1]), null, "of two gaps nobody knows which is usual");
});

test("rows as CSV: names first, lists with spaces, nothing for what is not defined", () => {
  assert.equal(csvOf([{ seq: 0, tpot: null, itl: [0.5, 1] }]), "seq,tpot,itl\r\n0,,0.5 1\r\n");
  assert.equal(csvOf([]), "");
});

test("long series of gaps are sampled, including each sequence's longest", () => {
  const row = (seq, itl) => ({ seq, itl, itl_max: itl.length ? Math.max(...itl) : null, itl_tokens: [2, 3, 7, 9] });
  const rows = [row(0, [1, 2, 9, 4]), row(1, [5, 6, 7, 8]), row(2, [])];
  assert.deepEqual(drawnGaps(rows, 8), {
    every: 1,
    gaps: rows.flatMap(({ seq, itl }) => itl.map((seconds, i) => ({ seq, seconds, token: [2, 3, 7, 9][i] }))),
  });
  const { every, gaps } = drawnGaps(rows, 3); // 8 gaps: one in three
  assert.equal(every, 3);
  assert.deepEqual(
    gaps.map(({ seq, seconds }) => [seq, seconds]),
    [
      [0, 1],
      [0, 9],
      [0, 4],
      [1, 5],
      [1, 8],
    ],
  );
});

test("40 tracks over 500 records: cells stay clickable, the plane scrolls, points find their cell again", () => {
  const layout = tracksLayout({ records: 500, tracks: 40, width: 400, height: 134 });
  assert.equal(layout.width, GUTTER + 500 * layout.cell + 2);
  assert.ok(layout.cell >= 6 && layout.row >= 13 && layout.height > 134);
  assert.deepEqual(layout.at(layout.x(321) + 1, layout.y(17) + 1), { record: 321, track: 17 });
  assert.deepEqual(layout.at(10, layout.y(3) + 1), { record: null, track: 3 }); // its name
  assert.deepEqual(layout.at(layout.x(5) + 1, 3), { record: 5, track: null }); // the budgets
});

test("a low room drops the budgets and keeps the rows of three sequences apart", () => {
  for (const height of [60, 84, 95]) {
    const { top, row } = tracksLayout({ records: 70, tracks: 3, width: 400, height });
    assert.equal(top, 0);
    assert.ok(row >= 13);
  }
  const { top, row } = tracksLayout({ records: 70, tracks: 3, width: 400, height: 100 });
  assert.equal(top, 46); // 26 and 12 px of budgets, each with a gap of 4
  assert.ok(top + 3 * row + 14 <= 100);
});

test("where 40 tracks do not fit, the window says which records are in sight, and a chosen track stays below the budgets", () => {
  const height = 134;
  const { top } = tracksLayout({ records: 500, tracks: 40, width: 400, height });
  const most = Math.floor((height - top - AXIS_HEIGHT) / 13); // rows of 13 px at least
  assert.deepEqual([rowsFit(most, height), rowsFit(most + 1, height)], [true, false]);
  const width = GUTTER + 60; // 10 cells of 6 px
  assert.deepEqual(visibleRecords(500, width, 0), [0, 10]);
  assert.deepEqual(visibleRecords(500, width, 600), [100, 110]);
  assert.deepEqual(visibleRecords(500, width, 500 * 6 - 30), [495, 499]);
  assert.equal(tracksLayout({ records: 500, tracks: 40, width, height }).pinned, 0);
  const layout = tracksLayout({ records: 500, tracks: 40, width, height, pinned: true });
  assert.equal(layout.pinned, layout.row);
});

test("a budget's axis ends at the limit when it is near, else above the largest value", () => {
  const ceiling = (value) => value * 10;
  assert.equal(budgetScale(20, 24, ceiling), 24);
  assert.equal(budgetScale(20, 2048, ceiling), 200);
});

test("step numbers lie 30 pixels apart: every 5th at 6 pixels a cell", () => {
  assert.equal(labelEvery(6, 30), 5);
  assert.equal(labelEvery(22, 30), 2);
});

test("roofs come from the log; a replay without them has none, whatever the server could tell", () => {
  const known = { flops_per_second: 1, bytes_per_second: 1 };
  const show = (machine, mode) => {
    own.log.value = { header: { ...HEADER, model: { name: "", num_layers: 1, num_heads: 1 }, machine } };
    connection.value = mode;
    return roofs.value;
  };
  assert.equal(show({ roofs: known }, "replay"), known);
  assert.equal(show({ roofs: null }, "replay"), "unknown");
  assert.equal(show({}, "replay"), "unknown");
  assert.equal(show({}, "live"), "waiting");
});
