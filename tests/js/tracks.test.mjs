import assert from "node:assert/strict";
import { test } from "node:test";
import { attainable, latencies, phaseOf, ridge, rooflinePoint } from "../../static/js/core/metrics.js";
import { operationsOf } from "../../static/js/core/operations.js";
import { cellAt, marksIn, Tracks, tracksIn, tracksOf } from "../../static/js/core/tracks.js";
import { entryText } from "../../static/js/i18n/operations.js";
import { op } from "./log_builder.mjs";
import { speak } from "./words.mjs";

const HEADER = { engine: { block_size: 4, max_num_seqs: 2, max_num_batched_tokens: 8, strategy: "paged" } };
const submit = (id, n) => ({ ...op.submit(id, Array(n).fill(1), 9), queue_position: id });
const entry = (id, phase, start, n) => op.entry(id, phase, start, Array(n).fill(1));

/** A step of so many seconds that chose a token for each of `ids`. */
const step = (number, seconds, ids, { ops, batch }) => ({
  ...{ kind: "step", step: number, seconds, ops, batch },
  outputs: ids.map((seq_id) => ({ seq_id, token_id: 1 })),
});

/** Two requests; the second waits, is computed in two chunks, is preempted and comes back over 4 cached tokens. */
const RECORDS = [
  { kind: "submit", step: 0, ops: [submit(0, 5), submit(1, 6)] },
  step(1, 5, [0], {
    ops: [op.admit(0), { type: "defer", seq_id: 1, reason: "token_budget", needed: 1, available: 0 }],
    batch: [entry(0, "prefill", 0, 5)],
  }),
  step(2, 3, [0], { ops: [op.admit(1)], batch: [entry(0, "decode", 5, 1), entry(1, "prefill", 0, 4)] }),
  step(3, 2, [0, 1], { ops: [], batch: [entry(0, "decode", 6, 1), entry(1, "prefill", 4, 2)] }),
  step(4, 1, [0], { ops: [op.preempt(1, 0, 6)], batch: [entry(0, "decode", 7, 1)] }),
  step(5, 4, [0, 1], {
    ops: [
      { type: "lookup", seq_id: 1, verdict: "hit", num_tokens: 7, num_hit_tokens: 4, block_ids: [3] },
      op.admit(1, 4, true),
      op.finish(0),
    ],
    batch: [entry(0, "decode", 8, 1), entry(1, "prefill", 4, 3)],
  }),
  { kind: "submit", step: 5, ops: [submit(2, 3)] },
  { kind: "abort", step: 5, ops: [op.finish(2, "abort")] },
].map((record, index) => ({ ...record, index, timing: { forward: record.seconds ?? 0 } }));

const log = { header: HEADER, records: RECORDS };
const kinds = (tracks, id) => RECORDS.map((_, i) => cellAt(tracks.byId.get(id), i)?.kind ?? "-");

test("a track says what a sequence did in every record", () => {
  const tracks = tracksOf(log);
  assert.deepEqual(kinds(tracks, 0), ["waiting", "prefill", "decode", "decode", "decode", "decode", "-", "-"]);
  assert.deepEqual(kinds(tracks, 1), [
    "waiting",
    "waiting",
    "prefill",
    "prefill",
    "preempted",
    "prefill",
    "idle",
    "idle",
  ]);
  assert.deepEqual(kinds(tracks, 2), ["-", "-", "-", "-", "-", "-", "waiting", "waiting"]);
  assert.equal(tracks.byId.get(0).runs.length, 3); // equal cells are one run, prefill chunks apart
  assert.deepEqual(
    tracks.byId
      .get(1)
      .runs.filter((run) => run.kind === "prefill")
      .map((run) => run.tokens),
    [4, 2, 3],
  );
});

test("tracks with content in view are shown, the chosen one first", () => {
  const all = tracksOf(log); // 0 lives in records 0–5, 1 from 0 on, 2 in 6–7
  const ids = (from, to, chosen = null) => tracksIn(all, from, to, chosen).tracks.map((track) => track.seq_id);
  assert.deepEqual(ids(0, Infinity), [0, 1, 2]);
  assert.deepEqual(ids(2, 4), [0, 1]);
  assert.deepEqual(ids(5, 6), [0, 1, 2]);
  assert.deepEqual(ids(6, 7), [1, 2]);
  assert.deepEqual(ids(6, 7, 0), [0, 1, 2]); // chosen, though it has finished
  assert.deepEqual(ids(2, 4, 1), [1, 0]);
  assert.deepEqual(ids(2, 4, 99), [0, 1]); // not here
  const { pinned, hidden, columns } = tracksIn(all, 6, 7, null);
  assert.deepEqual([pinned, hidden, columns.length], [false, 1, 8]);
});

test("budgets: step 2 computed 4 + 1 tokens of 2 sequences", () => {
  const { columns, most } = tracksOf(log);
  assert.deepEqual(columns[2], {
    step: 2,
    kind: "step",
    instance: 0,
    prefill: 4,
    decode: 1,
    scheduled: 2,
    running: 2,
    waiting: 0,
  });
  assert.equal(columns[1].waiting, 1);
  assert.deepEqual(most, { tokens: 5, scheduled: 2 });
});

test("preempted after 6 tokens, back over 4 cached ones: 2 of the 3 tokens are computed a second time", () => {
  const track = tracksOf(log).byId.get(1);
  assert.deepEqual(track.preemptions, [
    { record: 4, at: 0, step: 4, lost: 6, resumed: 5, resumed_step: 5, cached: 4, again: 2 },
  ]);
  assert.deepEqual(cellAt(track, 5), { kind: "prefill", from: 5, to: 5, tokens: 3, again: 2 });
});

test("marks are found by window", () => {
  const track = tracksOf(log).byId.get(1);
  assert.deepEqual(
    marksIn(track, 0, 7).map((m) => `${m.record} ${m.mark}`),
    ["0 submit", "1 defer", "4 preempt", "5 hit"],
  );
  assert.deepEqual(marksIn(track, 2, 4), [{ record: 4, at: 0, mark: "preempt" }]);
});

test("folding goes on where it stopped and gives what folding at once gives", () => {
  const growing = { header: HEADER, records: RECORDS.slice(0, 3) };
  const tracks = tracksOf(growing);
  assert.equal(tracks.length, 3);
  growing.records.push(...RECORDS.slice(3));
  assert.equal(tracksOf(growing), tracks);
  const whole = new Tracks();
  RECORDS.forEach((record) => whole.append(record));
  assert.deepEqual(JSON.stringify(tracks.tracks), JSON.stringify(whole.tracks));
});

test("40 sequences over 500 steps: a run each, whatever the number of steps", () => {
  const tracks = new Tracks();
  const ids = Array.from({ length: 40 }, (_, id) => id);
  tracks.append({ kind: "submit", step: 0, ops: ids.map((id) => submit(id, 4)) });
  tracks.append({
    kind: "step",
    step: 1,
    ops: ids.map((id) => op.admit(id)),
    batch: ids.map((id) => entry(id, "prefill", 0, 4)),
  });
  for (let step = 2; step <= 500; step++)
    tracks.append({ kind: "step", step, ops: [], batch: ids.map((id) => entry(id, "decode", step + 2, 1)) });
  assert.equal(tracks.tracks.length, 40);
  assert.deepEqual(tracks.tracks[39].runs.at(-1), { kind: "decode", from: 2, to: 500 });
  assert.equal(cellAt(tracks.tracks[7], 250).kind, "decode");
});

test("a swapped sequence keeps its tokens", () => {
  const tracks = new Tracks();
  tracks.append({ kind: "submit", step: 0, ops: [submit(0, 4)] });
  tracks.append({ kind: "step", step: 1, ops: [op.admit(0)], batch: [entry(0, "prefill", 0, 4)] });
  tracks.append({ kind: "step", step: 2, ops: [{ ...op.preempt(1, 0, 6), seq_id: 0, mode: "swap" }] });
  tracks.append({
    kind: "step",
    step: 3,
    ops: [{ ...op.admit(0), resumed: true, num_swapped_tokens: 4 }],
    batch: [entry(0, "decode", 4, 1)],
  });
  assert.deepEqual(
    tracks.tracks[0].runs.map((run) => run.kind),
    ["waiting", "prefill", "swapped", "decode"],
  );
  assert.equal(tracks.tracks[0].preemptions[0].again, 0);
});

/** The same run with its tokens as operations. */
const timed = {
  records: log.records.map((record) => ({
    ...record,
    ops: [...(record.ops ?? []), ...(record.outputs ?? []).map((output) => ({ type: "sample", ...output }))],
  })),
};

test("engine time: TTFT 5 s, and ITL 3, 2, 1, 4 s", () => {
  const found = { queue: 0, ttft: 5, tpot: 2.5, itl: [3, 2, 1, 4], itl_tokens: [1, 2, 3, 4], num_output_tokens: 5 };
  assert.deepEqual(latencies(timed, 0, 7), found);
});

test("roofline: 600 FLOPs over 300 bytes in 2 s are 2 FLOPs a byte and 300 FLOP/s", () => {
  const work = { flops: 600, weight_bytes: 200, kv_read_bytes: 60, kv_write_bytes: 40 };
  const record = { work, timing: { forward: 2 }, batch: [entry(0, "decode", 5, 1)] };
  assert.deepEqual(rooflinePoint(record), { flops: 600, bytes: 300, intensity: 2, achieved: 300, phase: "decode" });
  assert.equal(rooflinePoint({ timing: { forward: 2 } }), null);
  const roofs = { flops_per_second: 1000, bytes_per_second: 200 };
  assert.equal(ridge(roofs), 5);
  assert.deepEqual([attainable(roofs, 2), attainable(roofs, 50)], [400, 1000]);
  assert.equal(phaseOf({ batch: [entry(0, "decode", 5, 1), entry(1, "prefill", 0, 4)] }), "mixed");
});

test("decisions are described in order with their numbers", () => {
  speak("en");
  assert.deepEqual(operationsOf(log, 1).map(entryText), [
    "seq 0 is admitted: 0 tokens come from the cache. 5 tokens are computed in this step.",
    "seq 1 waits: it needs 1 token, 0 of the budget of 8 left (max_num_batched_tokens).",
  ]);
  const [hit] = operationsOf(log, 5);
  assert.equal(entryText(hit), "seq 1: the prefix cache has 4 of 7 tokens, 1 block (3).");
  const [gone] = operationsOf(log, 4);
  assert.deepEqual(gone.later, [["later.cost", { record: 6, steps: 1, again: 2 }]]);
});

test("alternating operations are merged", () => {
  const ops = [
    { type: "evict", block_id: 4 },
    { type: "allocate", seq_id: 0, block_id: 4, logical: 0 },
    { type: "evict", block_id: 2 },
    { type: "allocate", seq_id: 0, block_id: 2, logical: 1 },
    { type: "write", seq_id: 0, start: 0, num_tokens: 8 },
    { type: "sample", seq_id: 0, token_id: 1 },
    { type: "write", seq_id: 1, start: 7, num_tokens: 1 },
    { type: "sample", seq_id: 1, token_id: 1 },
    { type: "free", seq_id: 1, block_id: 9, to: "front" },
    { type: "free", seq_id: 1, block_id: 8, to: "back" },
    { type: "free", seq_id: 1, block_id: 7, to: null },
    { type: "finish", seq_id: 1, reason: "stop", detail: "<eos>" },
  ];
  const told = operationsOf({ header: HEADER, records: [{ index: 0, ops, batch: [entry(0, "prefill", 0, 8)] }] }, 0);
  assert.deepEqual(
    told.map((o) => [o.at, o.type, o.seq]),
    [
      [0, "evict", null],
      [1, "allocate", 0],
      [4, "write", null],
      [5, "sample", null],
      [8, "free", 1],
      [11, "finish", 1],
    ],
  );
  assert.deepEqual(told.map(entryText), [
    "2 cached blocks (4, 2) evicted: seq 0 needs the room.",
    "seq 0 gets 2 blocks (4, 2). The next chunk of its tokens, 0–7, needs room.",
    "K and V of 9 tokens written, 2 sequences.",
    "2 tokens chosen, 2 sequences.",
    "seq 1 frees 3 blocks (9, 8, 7). 1 goes to the front of the free queue. " +
      "1 stays cached at the back of the free queue. 1 is still held by others.",
    "seq 1 finished: it came to a stop. What decided it: <eos>.",
  ]);
});
