import assert from "node:assert/strict";
import { test } from "node:test";
import {
  attentionTerms,
  compareInto,
  comparePosition,
  laterWeights,
  nothingCompared,
  pooled,
  rowOf,
  rowSources,
  softmaxOf,
  strongest,
  vectorAt,
  visibleKeys,
} from "../../static/js/core/attention.js";
import { decode } from "../../static/js/core/codec.js";
import { TraceLog } from "../../static/js/core/log.js";
import { attentionRow, sequenceViewAt } from "../../static/js/core/sequence_view.js";
import { headsLayout, layerLayout } from "../../static/js/panels/attention/heads_geometry.js";
import { mapLayout } from "../../static/js/panels/attention/map_geometry.js";
import { cellsFor, RowPyramid } from "../../static/js/panels/attention/rows.js";
import { encode } from "../../static/vendor/msgpack/encode.mjs";
import { bytes, floats, header, MEMORY, op, records } from "./log_builder.mjs";

function logOfOne() {
  const log = new TraceLog(header());
  for (const [record, capture] of records()) log.append(record, capture);
  return log;
}

/** The same, and then a second sequence with the same prompt: block 0 (positions 0 and 1) is a prefix hit. */
function logOfTwo() {
  const log = logOfOne();
  const ops = [op.submit(1, [1, 2, 3, 4, 5], 2)];
  log.append(encode({ index: 3, kind: "submit", step: 2, ops, timing: { at: 2 }, memory: MEMORY }));
  log.append(
    encode({
      index: 4,
      kind: "step",
      step: 3,
      batch: [op.entry(1, "prefill", 2, [3, 4, 5])],
      ops: [
        op.admit(1, 2),
        op.share(1, 0, 0, true),
        op.allocate(1, 1, 1),
        op.allocate(1, 2, 2),
        op.write(1, 2, 3),
        op.sample(1, 6),
      ],
      outputs: [{ seq_id: 1, token_id: 6, token_bytes: bytes("海"), text: "海", logprob: -0.5, top: [] }],
      timing: { at: 2.5 },
      memory: MEMORY,
    }),
  );
  return log;
}

test("each row belongs to the record that computed it", () => {
  const log = logOfOne();
  const at = (index) => rowSources(sequenceViewAt(log, index, 0, 0, 0)).map((source) => source.record);
  assert.deepEqual(at(1), [1, 1, 1, 1, 1]);
  assert.deepEqual(at(2), [1, 1, 1, 1, 1, 2]);
  assert.deepEqual(at(1), [1, 1, 1, 1, 1], "looking back shows what was");
  assert.deepEqual(at(0), []);
});

test("rows of a prefix hit were computed by the sequence that filled the block", () => {
  const sources = rowSources(sequenceViewAt(logOfTwo(), 4, 1, 0, 0));
  assert.deepEqual(
    sources.map(({ record, seq_id, position }) => [record, seq_id, position]),
    [
      [1, 0, 0],
      [1, 0, 1],
      [4, 1, 2],
      [4, 1, 3],
      [4, 1, 4],
    ],
  );
});

test("a source gives its row and vectors, or null without a capture", () => {
  const log = logOfTwo();
  const row = rowOf(log, { record: 2, seq_id: 0, position: 5 }, 0, 1);
  assert.equal(row.weights.length, 6);
  assert.deepEqual(Array.from(vectorAt(log, { record: 2, seq_id: 0, position: 5 }, 0, "k", 0)), [5, -5]);
  assert.equal(rowOf(log, { record: 4, seq_id: 1, position: 2 }, 0, 0), null);
  assert.equal(vectorAt(log, { record: 4, seq_id: 1, position: 2 }, 0, "v", 0), null);
  assert.equal(rowOf(log, null, 0, 0), null);
});

test("softmax: q · k · scaling, exp(score − max), the sum, the weights", () => {
  // scores 0 and ln 3: weights 1/4 and 3/4
  const terms = { scaling: 0.5, softcap: null, sink: null };
  const found = softmaxOf(
    [2, 0],
    [
      [0, 9],
      [Math.log(3), 9],
    ],
    terms,
  );
  assert.deepEqual(found.scores, [0, Math.log(3)]);
  assert.ok(Math.abs(found.exps[0] - 1 / 3) < 1e-15 && found.exps[1] === 1);
  assert.ok(Math.abs(found.weights[0] - 0.25) < 1e-15 && Math.abs(found.weights[1] - 0.75) < 1e-15);
  assert.equal(found.sink, null);
});

test("a sink counts in the sum, so the keys have less than one", () => {
  const found = softmaxOf([1], [[Math.log(2)]], { scaling: 1, softcap: null, sink: 0 });
  assert.ok(Math.abs(found.weights[0] - 2 / 3) < 1e-15);
  assert.ok(Math.abs(found.sink.weight - 1 / 3) < 1e-15);
  const large = softmaxOf([1], [[0]], { scaling: 1, softcap: null, sink: 1000 }); // the largest is the sink: nothing overflows
  assert.deepEqual([large.weights[0], large.sink.weight], [0, 1]);
});

test("a query sees all keys, its layer's window, or what the policy keeps", () => {
  const header = (window, engine = {}) => ({ model: { sliding_windows: [window] }, engine });
  assert.deepEqual(visibleKeys(header(null), 0, 3), [0, 1, 2, 3]);
  assert.deepEqual(visibleKeys(header(2), 0, 3), [2, 3]);
  assert.deepEqual(visibleKeys(header(null, { attention_window: 2, attention_sinks: 1 }), 0, 5), [0, 4, 5]);
  assert.deepEqual(visibleKeys(header(null, { attention_window: 4, attention_sinks: 3 }), 0, 5), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(visibleKeys(header(2, { attention_window: 2, attention_sinks: 1 }), 0, 5), [4, 5]); // its own is no wider
  assert.deepEqual(visibleKeys(header(9, { attention_window: 2, attention_sinks: null }), 0, 5), [4, 5]);
});

test("a softcap limits the scores", () => {
  const [score] = softmaxOf([1], [[3]], { scaling: 1, softcap: 2, sink: null }).scores;
  assert.ok(Math.abs(score - 2 * Math.tanh(1.5)) < 1e-15);
});

test("terms come from the header, null if it lacks them", () => {
  const model = { scalings: [0.25, 0.5], softcaps: [null, 30], sinks: [null, [1, 2]] };
  assert.deepEqual(attentionTerms(model, 0, 1), { scaling: 0.25, softcap: null, sink: null });
  assert.deepEqual(attentionTerms(model, 1, 1), { scaling: 0.5, softcap: 30, sink: 2 });
  assert.equal(attentionTerms({}, 0, 0), null);
  assert.equal(attentionTerms({ scalings: [] }, 0, 0), null);
});

test("a comparison finds the largest difference and its place; NaN is the largest", () => {
  const found = nothingCompared();
  compareInto(found, [1, 2, 3], [1, 2.5, 3], (i) => ({ i }));
  compareInto(found, [0], [0.25], (i) => ({ i: 9 + i }));
  assert.deepEqual(found, { count: 4, max: 0.5, worst: { i: 1, recorded: 2, recomputed: 2.5 } });
  compareInto(found, [1], [NaN], () => ({ i: "nan" }));
  assert.equal(found.max, Infinity);
  assert.equal(found.worst.i, "nan");
  compareInto(found, [1], [2], () => ({ i: "later" }));
  assert.equal(found.worst.i, "nan");
});

/** Layer 0 of sequence 0 as if it had been computed all at once: what the log's captures hold, with one weight and one key off. */
function whole({ weight = 0, key = 0 } = {}) {
  const n = 6;
  const rows = [0, 1].flatMap((head) =>
    Array.from({ length: n }, (_, q) =>
      Array.from({ length: n }, (_, k) => (k <= q ? 1 / (q + 1) : 0) + (head === 1 && q === 3 && k === 2 ? weight : 0)),
    ).flat(),
  );
  const k = Array.from({ length: n }, (_, p) => [p + (p === 4 ? key : 0), -p]).flat();
  const v = Array.from({ length: n }, (_, p) => [p, 0]).flat();
  const arrays = {
    layer: 0,
    q: floats([n, 2, 2], new Array(n * 4).fill(0)),
    k: floats([n, 1, 2], k),
    v: floats([n, 1, 2], v),
  };
  return decode(
    encode({
      ...arrays,
      rows: [{ seq_id: 0, query_start: 0, key_start: 0, heads: [0, 1], weights: floats([2, n, n], rows) }],
    }),
  );
}

test("rows, keys and values of all records are compared with a single pass", () => {
  const log = logOfOne();
  const sources = rowSources(sequenceViewAt(log, 2, 0, 0, 0));
  const compare = (arrays) => {
    const found = { weights: nothingCompared(), k: nothingCompared(), v: nothingCompared() };
    sources.forEach((source, position) => assert.ok(comparePosition(found, log, source, position, arrays, [0, 1])));
    return found;
  };
  const same = compare(whole());
  assert.deepEqual([same.weights.count, same.k.count, same.v.count], [2 * 21, 12, 12]); // 2 heads × (1 + 2 + … + 6); 6 × 2
  assert.deepEqual([same.weights.max, same.k.max, same.v.max], [0, 0, 0]);
  const other = compare(whole({ weight: 0.5, key: 0.25 }));
  assert.equal(other.weights.max, 0.5);
  assert.deepEqual([other.weights.worst.head, other.weights.worst.query, other.weights.worst.key], [1, 3, 2]);
  assert.deepEqual([other.k.max, other.k.worst.position, other.v.max], [0.25, 4, 0]);
});

test("the strongest key, and a row pooled into stretches", () => {
  const row = { keyStart: 3, weights: Float32Array.of(0.25, 0.5, 0.125), max: 0.5 };
  assert.deepEqual(strongest(row), { position: 4, weight: 0.5 });
  assert.deepEqual(Array.from(pooled(row, 2, 3)), [0, 0.25, 0.5]); // keys 3 | 4 and 5
});

test("a pyramid keeps rows as it grows, and a coarse cell is the largest below it", () => {
  const rows = new RowPyramid();
  const one = (query, at) => Float32Array.from({ length: query + 1 }, (_, key) => (key === at ? 1 : 0));
  rows.put(0, "a", 0, one(0, 0), 1);
  rows.put(5, "b", 0, one(5, 3), 1);
  rows.put(130, "c", 0, one(130, 77), 1); // beyond the first 64 and 128 rows
  const byte = (level, y, x) => rows.levels[level].bytes[y * rows.levels[level].size + x];
  assert.equal(rows.capacity, 256);
  assert.deepEqual([byte(0, 0, 0), byte(0, 5, 3), byte(0, 5, 4), byte(0, 5, 6)], [255, 255, 1, 0]);
  for (let level = 0; level < rows.levels.length; level++) assert.equal(byte(level, 130 >> level, 77 >> level), 255);
  assert.equal(byte(1, 2, 1), 255); // rows 4 and 5, keys 2 and 3
  rows.put(5, "again", 0, one(5, 0), 1);
  assert.deepEqual([byte(0, 5, 3), byte(1, 2, 1), byte(1, 2, 0), rows.sources[5]], [1, 1, 255, "again"]);
  assert.deepEqual(Array.from(rows.line(1, 5, 6).slice(0, 4)), [255, 1, 1, 0]); // row 5 alone, at the coarser level
});

test("keys after a row's query stay in that row", () => {
  const rows = new RowPyramid();
  rows.put(9, "own", 0, new Float32Array(10).fill(0.1), 0.1);
  rows.put(10, "mask missing", 0, new Float32Array(100).fill(0.01), 0.01); // keys beyond the first 64 rows
  const byte = (y, x) => rows.levels[0].bytes[y * rows.levels[0].size + x];
  assert.deepEqual([rows.capacity, byte(10, 99), byte(10, 100), byte(9, 10), byte(11, 36)], [128, 255, 0, 0, 0]);
  assert.equal(rows.line(0, 10, 11)[99], 255);
});

test("a row ends at its own key, or at the last later key that was given weight", () => {
  const rowAs = (recorded) => {
    const log = new TraceLog(header());
    const [[submit], [prefill]] = records();
    log.append(submit);
    const weights = floats([1, 1, 5], recorded);
    const rows = [{ seq_id: 0, query_start: 1, key_start: 0, heads: [0], weights }];
    log.append(
      prefill,
      encode({
        index: 1,
        dtype: "float32",
        layers: [{ layer: 0, q: floats([0], []), k: floats([0], []), v: floats([0], []), rows }],
        omitted: "",
      }),
    );
    return attentionRow(log, 1, 0, 0, 0, 1);
  };
  const causal = rowAs([0.5, 0.5, 0, 0, 0]);
  assert.deepEqual([causal.weights.length, laterWeights(causal, 1)], [2, null]);
  const unmasked = rowAs([0.25, 0.125, 0.5, 0.125, 0]);
  assert.deepEqual([unmasked.weights.length, unmasked.max], [4, 0.5]);
  assert.deepEqual(laterWeights(unmasked, 1), { sum: 0.625, position: 2, weight: 0.5 });
});

test("a window's keys before its start stay empty", () => {
  const rows = new RowPyramid();
  rows.put(9, "w", 7, Float32Array.of(0.5, 0.25, 0.25), 0.5);
  assert.deepEqual(
    Array.from(rows.levels[0].bytes.slice(9 * 64, 9 * 64 + 11)),
    [0, 0, 0, 0, 0, 0, 0, 255, 128, 128, 0],
  );
});

test("cells shrink in steps and waste at most an eighth", () => {
  let last = 0;
  for (let n = 1; n <= 2100; n++) {
    const side = cellsFor(n);
    assert.ok(side >= n && side >= last && (n < 16 || side <= 1.125 * n + 4), `${n} rows, ${side} cells`);
    last = side;
  }
  assert.equal(cellsFor(2000), 2048);
});

test("small multiples: heads of one KV head stand together; null where a picture would be too small", () => {
  const small = { num_layers: 4, num_heads: 8, num_kv_heads: 2 };
  const at = headsLayout(small, 215, 95, true);
  assert.deepEqual(
    at.lines.map((line) => line.map((cell) => cell.head)),
    Array(4).fill([0, 1, 2, 3, 4, 5, 6, 7]),
  );
  const [line] = at.lines;
  assert.ok(line[4].x - line[3].x > line[3].x - line[2].x);
  assert.deepEqual(
    at.brackets.map(({ kv }) => kv),
    [0, 1],
  );
  assert.ok(line[7].x + at.cellWidth <= 215 && at.lines[3][0].y + at.cellHeight <= 95);
  assert.equal(headsLayout({ num_layers: 30, num_heads: 9, num_kv_heads: 3 }, 320, 150, true), null);
  const shared = headsLayout({ num_layers: 2, num_heads: 4, num_kv_heads: 4 }, 200, 80, false);
  assert.deepEqual(shared.brackets, []); // every head has its own
});

test("one layer: every head once, as large as the space allows", () => {
  for (const [num_heads, num_kv_heads] of [
    [32, 8],
    [9, 3],
    [7, 1],
    [128, 8],
  ])
    for (const square of [true, false]) {
      const model = { num_layers: 36, num_heads, num_kv_heads };
      const at = layerLayout(model, 17, 320, 140, square);
      const cells = at.lines.flat();
      assert.deepEqual(
        cells.map((cell) => cell.head),
        Array.from({ length: num_heads }, (_, head) => head),
      );
      assert.ok(
        cells.every((cell) => cell.layer === 17 && cell.x + at.cellWidth <= 320 && cell.y + at.cellHeight <= 140),
      );
      assert.ok(
        at.cellWidth >= 15 && at.cellHeight >= (num_heads > 100 ? 10 : 15),
        `${at.cellWidth} x ${at.cellHeight}`,
      );
    }
});

test("the map has a cell per layer and head, found where it is drawn", () => {
  for (const [num_layers, num_heads, num_kv_heads, width, height] of [
    [30, 9, 3, 320, 130],
    [36, 32, 8, 320, 130],
    [36, 32, 32, 260, 110],
    [126, 128, 8, 320, 150],
  ]) {
    const at = mapLayout({ num_layers, num_heads, num_kv_heads }, width, height, 1);
    assert.deepEqual([at.layers.length, at.heads.length], [num_layers, num_heads]);
    assert.ok(
      at.x(num_heads - 1) + at.cellWidth(num_heads - 1) <= width &&
        at.y(num_layers - 1) + at.cellHeight(num_layers - 1) <= height,
    );
    for (let i = 0; i < Math.min(num_layers, num_heads); i++) assert.ok(at.cellWidth(i) >= 1 && at.cellHeight(i) >= 1);
    for (const [line, place] of [
      [0, 0],
      [num_layers - 1, num_heads - 1],
      [17, 5],
    ])
      assert.deepEqual(at.hit(at.x(place) + at.cellWidth(place) / 2, at.y(line) + at.cellHeight(line) / 2), {
        layer: line,
        head: place,
      });
    assert.deepEqual(at.hit(3, at.y(7) + 0.5), { layer: 7, head: null });
    assert.equal(at.hit(width / 2, 3), null);
    const steps = at.labelledLayers.slice(1).map((place, i) => at.y(place) - at.y(at.labelledLayers[i]));
    assert.ok(steps.every((step) => step >= 14));
  }
});

test("a header with more heads than a screen has pixels is drawn with every n-th", () => {
  const at = mapLayout({ num_layers: 4096, num_heads: 4096, num_kv_heads: 4096 }, 320, 150, 1);
  assert.ok(at.layers.length <= 133 && at.heads.length <= 296);
  assert.equal(at.layers[1], 31); // 4096 layers in 133 px
});
