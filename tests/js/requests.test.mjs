// The table of requests: what is found and in which order, what is slow, the story in both languages. The figures
// themselves are held to Python's by test_figures_parity.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { barOf, phaseSeconds } from "../../static/js/core/request_phases.js";
import { foundRows, mostPreempted, requestFigures } from "../../static/js/core/requests.js";
import { timelineOf } from "../../static/js/core/timeline.js";
import { tracksOf } from "../../static/js/core/tracks.js";
import { nextOrder, orderOf } from "../../static/js/kit/request_table.js";
import { columnsFor, layoutFor, NAMES } from "../../static/js/panels/requests/columns.js";
import { csvOfRows } from "../../static/js/panels/requests/head.js";
import { eventText, waitingText } from "../../static/js/panels/requests/timeline.js";
import { op } from "./log_builder.mjs";
import { speak } from "./words.mjs";

const HEADER = { engine: { block_size: 4, max_num_seqs: 1, max_num_batched_tokens: 8, strategy: "paged" } };
const submit = (id, request_id, n, more = {}) => ({
  ...{ ...op.submit(id, Array(n).fill(1), 9), request_id, queue_position: id },
  ...more,
});
const entry = (id, phase, n) => op.entry(id, phase, 0, Array(n).fill(1));
const defer = { type: "defer", seq_id: 1, reason: "max_num_seqs", needed: 1, available: 0 };

/** r10 runs and is preempted, r9 waits for its place and still waits when the log ends; r9's second one never comes. */
const RECORDS = [
  { kind: "submit", step: 0, ops: [submit(0, "r10", 5, { client: "key-a", waited: 2.5 }), submit(1, "r9", 3)] },
  {
    kind: "step",
    step: 1,
    ops: [op.admit(0, 4), defer, op.sample(0)],
    batch: [entry(0, "prefill", 1)],
    seconds: 4,
  },
  { kind: "step", step: 2, ops: [defer, op.sample(0)], batch: [entry(0, "decode", 1)], seconds: 1 },
  {
    kind: "step",
    step: 3,
    ops: [{ ...op.preempt(0, 0, 6), num_recompute_tokens: 2, num_kept_tokens: 4 }],
    seconds: 1,
  },
  {
    kind: "step",
    step: 4,
    ops: [op.admit(0, 4, true), op.sample(0)],
    batch: [entry(0, "prefill", 3)],
    seconds: 1,
  },
].map(({ seconds = 0, ...record }, index) => ({ ...record, index, timing: { forward: seconds } }));

const log = { header: HEADER, records: RECORDS };

test("a row has what operations and times say of a sequence", () => {
  const { rows, median, numSlow, slowest } = requestFigures(log);
  assert.deepEqual(rows[0], {
    seq: 0,
    parts: [0],
    request: "r10",
    prompt: 5,
    output: 3,
    hit: 4,
    client: "key-a",
    lane: 2.5,
    missed: null,
    moved: 0,
    queue: 0,
    ttft: 4,
    tpot: (4 + 1 + 1 + 1 - 4) / 2, // three tokens, the first after 4 seconds and the last after 7
    prefill: 4 + 1, // its prompt, and what the preemption had lost
    moving: 0,
    decode: 1,
    away: 1, // the step that preempted it
    begin: 0,
    until: 4 + 1 + 1 + 1,
    preempted: 1,
    lost: 6 - 4,
    slow: 1,
    end: "running",
  });
  assert.equal(median, 1); // of 4, 1, 1, 1
  assert.equal(numSlow, 1); // 4 > 2 · 1
  assert.deepEqual(
    slowest.map(({ record }) => record),
    [1, 2, 3, 4],
  );
  assert.deepEqual(slowest[0], { record: 1, step: 1, seconds: 4, prefill: 1, decode: 0, seqs: 1 });
  assert.deepEqual([rows[1].ttft, rows[1].tpot, rows[1].queue, rows[1].end], [null, null, null, "waiting"]);
});

test("the figures grow with the log", () => {
  const growing = { header: HEADER, records: RECORDS.slice(0, 2) };
  assert.equal(requestFigures(growing).rows[0].output, 1);
  assert.equal(requestFigures(growing), requestFigures(growing)); // once for each length
  growing.records.push(...RECORDS.slice(2));
  assert.deepEqual(requestFigures(growing).rows, requestFigures(log).rows);
});

test("while a log is on its way its figures wait until it has grown by a tenth", () => {
  const step = (index) => ({ kind: "step", step: index, index, ops: [], timing: { forward: 1 } });
  const log = { header: HEADER, records: Array.from({ length: 100 }, (_, i) => step(i)) };
  const before = requestFigures(log, true);
  log.records.push(...Array.from({ length: 9 }, (_, i) => step(100 + i)));
  assert.equal(requestFigures(log, true), before); // 109 < 1.1 · 100
  log.records.push(step(109), step(110));
  const grown = requestFigures(log, true);
  assert.notEqual(grown, before);
  log.records.push(step(111));
  assert.equal(requestFigures(log, true), grown);
  assert.notEqual(requestFigures(log), grown); // it is all here
});

test("rows are found by a part of their request's name or their sequence's number, and put in order", () => {
  const { rows } = requestFigures(log);
  const seqs = (text, column = "seq", down = false) => foundRows(rows, text, column, down).map(({ seq }) => seq);
  assert.deepEqual(seqs(""), [0, 1]);
  assert.deepEqual(seqs("R9 "), [1]);
  assert.deepEqual(seqs("0"), [0]); // r10, and sequence 0
  assert.deepEqual(seqs("1"), [0, 1]); // r10, and sequence 1
  assert.deepEqual(seqs("", "request"), [1, 0]); // r9 before r10
  assert.deepEqual(seqs("", "prompt", true), [0, 1]);
  for (const down of [false, true]) assert.deepEqual(seqs("", "ttft", down), [0, 1]); // what is not known comes last
  assert.deepEqual(
    mostPreempted(rows).map(({ seq }) => seq),
    [0],
  );
});

test("rows are of one client, or only those that were preempted more than once", () => {
  const { rows } = requestFigures(log);
  const seqs = (more) => foundRows(rows, "", "seq", false, more).map(({ seq }) => seq);
  assert.deepEqual(seqs({ client: "key-a" }), [0]);
  assert.deepEqual(seqs({ only: "preempted" }), []); // once is not more than once
  const twice = [{ ...rows[0], preempted: 2 }, rows[1]];
  assert.deepEqual(
    foundRows(twice, "", "seq", false, { only: "preempted" }).map(({ seq }) => seq),
    [0],
  );
});

test("a prefix was there a minute ago when the block at which the hit ended was evicted at most 60 s before", () => {
  const at = (seconds) => ({ at: seconds });
  const lookup = (seq, evicted_in, reason = "evicted") => ({
    ...{ type: "lookup", seq_id: seq, verdict: "miss", num_tokens: 5, num_hit_tokens: 0, block_ids: [] },
    ...{ reason, evicted_in },
  });
  const missing = (seconds, op) => {
    const records = [
      { kind: "submit", step: 0, ops: [submit(0, "r0", 5)], timing: at(0) },
      { kind: "step", step: 1, ops: [], timing: at(10) }, // here the block goes
      { kind: "step", step: 2, ops: [op], timing: at(10 + seconds) },
    ].map((record, index) => ({ ...record, index }));
    const { rows } = requestFigures({ header: HEADER, records });
    return [rows[0].missed, foundRows(rows, "", "seq", false, { only: "missed" }).length];
  };
  assert.deepEqual(missing(60, lookup(0, 1)), [60, 1]);
  assert.deepEqual(missing(60.5, lookup(0, 1)), [60.5, 0]);
  assert.deepEqual(missing(5, lookup(0, 1, "differs")), [null, 0]);
  assert.deepEqual(missing(5, lookup(0, null)), [null, 0]);
});

test("a request's time is a bar of its phases, in pixels of the engine's clock", () => {
  const track = (seq) => tracksOf(log).byId.get(seq);
  const bar = (seq, ...scale) => barOf(log, [track(seq)], ...scale).map(({ phase, x, width }) => [phase, x, width]);
  assert.deepEqual(bar(0, 0, 7, 70), [
    ["prefill", 0, 40],
    ["decode", 40, 10],
    ["preempted", 50, 10],
    ["prefill", 60, 10],
  ]);
  assert.deepEqual(bar(1, 0, 7, 70), [["waiting", 0, 70]]);
  assert.deepEqual(bar(0, 0, 7, 3.5).length <= 4, true); // half a pixel a second: no more segments than pixels
  for (const seq of [0, 1]) {
    const { waiting, prefill, decode, preempted, begin, until } = phaseSeconds(log, [track(seq)]);
    assert.equal(waiting + prefill + decode + preempted, until - begin);
  }
});

test("the table to keep has every figure of the rows shown, and no formula", () => {
  const [row] = requestFigures(log).rows;
  const [head, line] = csvOfRows([{ ...row, client: "=1+1" }]).split("\r\n");
  const cells = Object.fromEntries(head.split(",").map((name, i) => [name, line.split(",")[i]]));
  assert.deepEqual(
    [cells.request_id, cells.client, cells.lane_seconds, cells.cached_tokens, cells.tpot_seconds, cells.end],
    ["r10", "'=1+1", "2.5", "4", "1.5", "running"],
  );
});

test("pressing a column's head goes through its orders and back to the order of arrival", () => {
  assert.equal(nextOrder(null, "ttft"), "-ttft");
  assert.equal(nextOrder("-ttft", "ttft"), "ttft");
  assert.equal(nextOrder("ttft", "ttft"), null);
  assert.equal(nextOrder("-ttft", "request", true), "request");
  assert.deepEqual(orderOf("-ttft", NAMES), { column: "ttft", down: true });
  assert.deepEqual(orderOf("-nonsense", NAMES), { column: "seq", down: false });
});

test("where there is no room for all columns, those stay that tell requests apart", () => {
  assert.equal(columnsFor(2000).length, 20);
  for (const width of [340, 500, 640]) {
    const found = columnsFor(width);
    assert.ok(found.reduce((sum, column) => sum + column.width, 0) <= width);
    for (const name of ["request", "ttft", "preempted"]) assert.ok(found.some((column) => column.name === name));
    for (const timeline of [false, true])
      assert.ok(layoutFor(width, timeline, [], "missed").columns.some(({ name }) => name === "missed"));
  }
});

test("beside the bar there are as many columns as have room; a client and its lane only where the log says them", () => {
  const { rows } = requestFigures(log);
  for (const width of [362, 600, 900, 1600])
    for (const timeline of [false, true]) {
      const { columns, bar } = layoutFor(width, timeline, rows);
      assert.ok(columns.reduce((sum, column) => sum + column.width, 0) + bar <= width);
      assert.equal(bar >= (timeline ? 120 : 150), timeline || width >= 480); // room for the head of the bars
    }
  const names = (of) => layoutFor(2000, false, of).columns.map(({ name }) => name);
  assert.ok(names(rows).includes("client") && names(rows).includes("lane"));
  assert.ok(!names([rows[1]]).includes("client") && !names([rows[1]]).includes("lane"));
});

test("a story is told with what came before each turn", () => {
  const told = (seq) => {
    const story = timelineOf(log, seq);
    const said = story.events.map((moment) => eventText(log, moment));
    return [...said, ...(story.waiting ? [waitingText(story.waiting)] : [])];
  };
  speak("en");
  const [arrived, , preempted, back] = told(0);
  assert.match(arrived, /^seq 0 arrives with 5 prompt tokens/);
  assert.match(preempted, /2 must be computed again/);
  assert.match(back, /admitted again: 4 tokens come from the cache.*2 tokens computed before must be computed again/);
  assert.equal(
    told(1).at(-1),
    "The log ends, and it has waited 4 steps: 2 behind others, 2 because as many sequences ran as may run at once " +
      "(max_num_seqs); at last it needed 1, and 0 were available.",
  );
  speak("zh");
  assert.match(told(1).at(-1), /已等了 4 步：2 步排在别的序列之后、2 步因为/);
  speak("en");
});
