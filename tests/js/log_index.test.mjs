// A long log's blocks walked forwards and backwards, and its pool as a picture.
import assert from "node:assert/strict";
import test from "node:test";
import { BlockWindow, binAt, statusAt } from "../../static/js/core/log_index.js";
import { colourBlocks, gridFor, orderOf } from "../../static/js/core/pool_texture.js";
import { layoutFor, NAMES as TITLES } from "../../static/js/panels/large/columns.js";

const NAMES = ["owner", "ref_count", "filled", "allocated_in", "used_in", "num_hits"];
const BYTES = ["is_cached", "tiers"];
const BLOCKS = 40;

/** Numbers that look drawn, the same in each run. */
function* drawn(seed = 7) {
  for (let x = seed; ; ) yield (x = (x * 48271) % 2147483647);
}

/** Columns after each of `count` records, and the pieces that lead there. */
function made(count, each) {
  const draw = drawn();
  const next = (below) => draw.next().value % below;
  const columns = Object.fromEntries(NAMES.map((name) => [name, new Int32Array(BLOCKS)]));
  for (const name of BYTES) columns[name] = new Uint8Array(BLOCKS);
  const copy = () => Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.slice()]));
  const [after, pieces] = [[copy()], []];
  for (let first = 1; first <= count; first += each) {
    const rows = [];
    const end = Math.min(count + 1, first + each);
    for (let record = first; record < end; record++) {
      for (let i = next(5); i > 0; i--) {
        const row = { record, block: next(BLOCKS), is_cached: next(2), tiers: next(8) };
        for (const name of NAMES) row[name] = next(1000) - 1;
        rows.push(row);
        for (const name of [...NAMES, ...BYTES]) columns[name][row.block] = row[name];
      }
      after.push(copy());
    }
    const column = (name, Kind) => Kind.from(rows.map((row) => row[name]));
    const piece = { first, end, records: [] };
    for (const name of ["record", "block", ...NAMES]) piece[name] = column(name, Int32Array);
    for (const name of BYTES) piece[name] = column(name, Uint8Array);
    pieces.push(piece);
  }
  return { after, pieces };
}

test("walking in either direction shows what was there after each record", () => {
  const { after, pieces } = made(60, 7);
  const window = new BlockWindow(0, structuredClone(after[0]));
  for (const piece of pieces) window.extend(piece);
  assert.deepEqual([window.first, window.end], [0, 61]);
  const draw = drawn(11);
  const way = [0, 1, 2, 30, 29, 28, 60, 0, 60, 59, ...Array.from({ length: 200 }, () => draw.next().value % 61)];
  for (const index of way) {
    window.goTo(index);
    assert.deepEqual(window.columns, after[index], `after record ${index}`);
  }
  assert.throws(() => window.goTo(61), RangeError);
  assert.throws(() => window.extend(pieces[0]), RangeError);
});

test("a long walk drops the farthest records by bytes", () => {
  const { after, pieces } = made(9000, 200);
  const row = 4 * (NAMES.length + 2) + BYTES.length;
  for (const piece of pieces) piece.records = Array.from({ length: 200 }, () => new Uint8Array(1000));
  const most = 12 * (200 * 1000 + 2 * 200 * row);
  const window = new BlockWindow(0, structuredClone(after[0]), most);
  const taken = () =>
    window.pieces.reduce((sum, { record, records }) => sum + record.length * row + 1000 * records.length, 0);
  for (const piece of pieces) {
    window.extend(piece);
    window.goTo(piece.end - 1);
    assert.ok(window.numBytes === taken() && taken() <= most);
  }
  assert.ok(window.pieces.length >= 11, `${window.pieces.length}: it keeps what there is room for`);
  assert.deepEqual(window.columns, after[9000]);
  assert.ok(!window.has(0) && window.has(8999));
  window.goTo(window.first);
  assert.deepEqual(window.columns, after[window.first]);
});

test("nearby records stay; walking back drops those ahead", () => {
  const { after, pieces } = made(3000, 100);
  for (const piece of pieces) piece.records = Array.from({ length: 100 }, () => new Uint8Array(1000));
  const window = new BlockWindow(0, structuredClone(after[0]), 1);
  for (const piece of pieces.slice(0, 10)) window.extend(piece);
  window.goTo(600);
  assert.deepEqual([window.first, window.end], [300, 901]);
  assert.deepEqual(window.columns, after[600]);
  window.goTo(300);
  assert.deepEqual([window.first, window.end], [300, 601]);
  assert.deepEqual(window.columns, after[300]);
  window.extend(pieces[6]);
  assert.equal(window.end, 701);
});

test("a bin is found by its record", () => {
  const bins = { edges: Float64Array.of(10, 13, 17, 20) };
  assert.deepEqual(
    [10, 12, 13, 16, 17, 19].map((index) => binAt(bins, index)),
    [0, 0, 1, 1, 2, 2],
  );
});

test("what a sequence does follows from its spans", () => {
  const spans = [
    { kind: 0, first: 5, end: 8 },
    { kind: 1, first: 8, end: 12 },
    { kind: 2, first: 12, end: 20 },
  ];
  const one = { submitted_in: 5, spans };
  assert.deepEqual(
    [4, 5, 8, 12, 20].map((at) => statusAt(one, at)),
    [null, "waiting", "running", "preempted", "finished"],
  );
  assert.equal(statusAt({ submitted_in: 5, spans: [{ kind: 1, first: 5, end: -1 }] }, 99), "running");
});

test("a grid holds every block and stays in its box", () => {
  for (const [count, width, height] of [
    [100000, 640, 320],
    [4000, 358, 300],
    [7, 100, 100],
    [100000, 350, 200],
  ]) {
    const { columns, rows, cell } = gridFor(count, width, height);
    assert.ok(columns * rows >= count && columns * (rows - 1) < count);
    assert.ok(columns * cell <= width && (rows * cell <= height || cell === 1));
  }
});

test("an order has each block once, and colours show its owner", () => {
  const columns = {
    ...Object.fromEntries(NAMES.map((name) => [name, new Int32Array(6)])),
    is_cached: new Uint8Array(6),
    tiers: Uint8Array.of(0, 0, 3, 1, 0, 1),
  };
  columns.owner.set([2, -1, 0, 1, 0, 2]);
  columns.used_in.set([9, -1, 4, 7, 1, 9]);
  columns.ref_count.set([1, 0, 0, 3, 0, 1]);
  columns.is_cached.set([1, 0, 1, 0, 0, 0]);
  assert.deepEqual([...orderOf(columns, "id")], [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([...orderOf(columns, "owner")], [1, 2, 4, 3, 0, 5]);
  const used = [...orderOf(columns, "used")];
  assert.deepEqual(
    used.map((id) => columns.used_in[id]),
    [9, 9, 7, 4, 1, -1],
  );
  const words = new Uint32Array(6);
  const pixels = new Uint8Array(words.buffer);
  const inks = {
    paper: [255, 255, 255],
    ink: [0, 0, 0],
    owners: [
      [255, 0, 0],
      [0, 255, 0],
      [0, 0, 255],
    ],
    scale: [
      [9, 9, 9],
      [5, 5, 5],
    ],
    cached: 0.45,
  };
  colourBlocks(words, orderOf(columns, "id"), columns, "owner", 10, inks, () => 0);
  const at = (id) => [...pixels.slice(4 * id, 4 * id + 3)];
  assert.deepEqual(
    [at(0), at(1), at(3), at(4)],
    [
      [0, 0, 255],
      [255, 255, 255],
      [0, 255, 0],
      [255, 255, 255],
    ],
  );
  assert.ok(at(2)[0] === 255 && at(2)[1] > 100 && at(2)[1] < 200, "cached and held by nobody: its owner's, weaker");
  for (const meaning of ["age", "refs", "hits", "group"]) {
    colourBlocks(words, orderOf(columns, "id"), columns, meaning, 10, inks, (id) => id);
    assert.deepEqual(at(1), [255, 255, 255], meaning);
    assert.ok(
      [0, 2, 3, 5].every((id) => at(id).join() !== at(1).join()),
      meaning,
    );
  }
  colourBlocks(words, orderOf(columns, "id"), columns, "tier", 10, inks, () => 0);
  assert.deepEqual([at(0), at(3), at(5)], [inks.owners[0], inks.owners[1], inks.owners[1]]);
  colourBlocks(words, orderOf(columns, "id"), columns, "refs", 10, inks, () => 0);
  assert.notDeepEqual(at(0), at(1));
});

test("the table shows the columns that fit, and always the filter's", () => {
  const some = [{ client: "key-a" }];
  for (const width of [366, 480, 730, 2000]) {
    const { columns, bar } = layoutFor(width, some, null);
    assert.ok(columns.reduce((sum, column) => sum + column.width, bar) <= width);
    for (const name of ["request", "status", "preempted"]) assert.ok(columns.some((column) => column.name === name));
    assert.ok(layoutFor(width, some, "missed").columns.some(({ name }) => name === "missed"));
  }
  const at = (rows) => layoutFor(2000, rows, null).columns.map(({ name }) => name);
  assert.equal(at(some).length, TITLES.length);
  assert.ok(!at([{ client: null }]).includes("client"));
});
