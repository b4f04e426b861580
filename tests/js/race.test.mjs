import assert from "node:assert/strict";
import { test } from "node:test";

import { TraceLog } from "../../static/js/core/log.js";
import {
  compareTokens,
  computedSoFar,
  expectedComputed,
  laneAt,
  raceAt,
  stepRecords,
  timeAgainstWork,
} from "../../static/js/runs/race.js";
import { encode } from "../../static/vendor/msgpack/encode.mjs";
import { bytes, header, MEMORY } from "./log_builder.mjs";

const PER_TOKEN = 2 * 1 * 1 * 2 * 4; // bytes: K and V of one layer, one head of two float32
const SIZE = { none: 2, paged: 2, contiguous: 8 }; // slots a block; a pool of 8 slots

/** The log of one request with a prompt of three tokens that chooses `chosen`; a step takes `seconds(tokens)`. */
function lane(strategy, chosen, seconds = (n) => n) {
  const size = SIZE[strategy];
  const log = new TraceLog(header({ strategy, num_blocks: 8 / size, block_size: size }));
  const prompt = [1, 2, 3];
  const submit = {
    type: "submit",
    seq_id: 0,
    queue_position: 0,
    request_id: "r",
    prompt_token_ids: prompt,
    prompt_token_bytes: prompt.map((i) => bytes(`p${i}`)),
    max_tokens: chosen.length,
  };
  log.append(encode({ index: 0, kind: "submit", step: 0, ops: [submit], timing: { at: 0 }, memory: MEMORY }));
  let blocks = 0;
  chosen.forEach((token, i) => {
    const context = prompt.length + i;
    const start = strategy === "none" || i === 0 ? 0 : context - 1;
    const ops = i === 0 ? [{ type: "admit", seq_id: 0, num_cached_tokens: 0, resumed: false }] : [];
    for (; blocks * size < context; blocks++)
      ops.push({ type: "allocate", seq_id: 0, block_id: blocks, logical: blocks });
    ops.push(
      { type: "write", seq_id: 0, start, num_tokens: context - start },
      { type: "sample", seq_id: 0, token_id: token },
    );
    const last = i === chosen.length - 1;
    if (last || strategy === "none")
      for (; blocks > 0; blocks--) ops.push({ type: "free", seq_id: 0, block_id: blocks - 1, to: "front" });
    if (last) ops.push({ type: "finish", seq_id: 0, reason: "length" });
    else if (strategy === "none") ops.push({ type: "discard", seq_id: 0 });
    log.append(
      encode({
        index: i + 1,
        kind: "step",
        step: i + 1,
        batch: [
          {
            seq_id: 0,
            phase: i ? "decode" : "prefill",
            start,
            token_ids: [...Array(context - start).keys()],
            context_len: context,
            samples: true,
          },
        ],
        ops,
        outputs: [{ seq_id: 0, token_id: token, token_bytes: bytes(`t${token}`), text: "", logprob: -1, top: [] }],
        timing: { at: i + 1, schedule: 0, prepare: 0, forward: seconds(context - start), sample: 0 },
        memory: { ...MEMORY, bytes_used: last || strategy === "none" ? 0 : context * PER_TOKEN },
        work: {
          num_tokens: context - start,
          flops: 10 * (context - start),
          weight_bytes: 0,
          kv_read_bytes: 0,
          kv_write_bytes: 0,
        },
      }),
    );
  });
  return log;
}

const race = (chosen = [7, 8, 9, 7]) => [lane("none", chosen), lane("contiguous", chosen), lane("paged", chosen)];

test("without a cache a step computes every token, with it one", () => {
  const [none, contiguous, paged] = raceAt(race(), 3).lanes;
  assert.deepEqual([none.computed, contiguous.computed, paged.computed], [5, 1, 1]); // 3 + 2 tokens, the third step
  assert.deepEqual([none.totalComputed, contiguous.totalComputed, paged.totalComputed], [3 + 4 + 5, 3 + 1 + 1, 5]);
  assert.deepEqual([none.totalFlops, paged.totalFlops], [120, 50]);
  assert.deepEqual([none.flops, paged.flops, paged.seconds, paged.totalSeconds], [50, 10, 1, 5]);
});

test("memory is that of the forward pass: contiguous reserves everything, paged the blocks it needs", () => {
  const [none, contiguous, paged] = raceAt(race(), 3).lanes;
  // five positions with K and V: three blocks of two, or one block of eight
  assert.deepEqual([paged.held, paged.used, paged.wasted], [6 * PER_TOKEN, 5 * PER_TOKEN, PER_TOKEN]);
  assert.deepEqual(
    [contiguous.held, contiguous.used, contiguous.wasted],
    [8 * PER_TOKEN, 5 * PER_TOKEN, 3 * PER_TOKEN],
  );
  assert.deepEqual([none.held, none.used], [6 * PER_TOKEN, 5 * PER_TOKEN]);
  assert.deepEqual([none.kept, paged.kept], [0, 5 * PER_TOKEN]);
  assert.deepEqual(none.slots, { reserved: 6, read: 0, computed: 5 });
  assert.deepEqual(paged.slots, { reserved: 6, read: 4, computed: 1 });
});

test("looking back shows what was", () => {
  const logs = race();
  assert.deepEqual(
    raceAt(logs, 1).lanes.map((one) => [one.computed, one.totalComputed, one.finished]),
    Array(3).fill([3, 3, false]),
  );
  const before = laneAt(logs[2], 0);
  assert.deepEqual([before.computed, before.held, before.slots, before.tokenIds], [0, 0, null, []]);
});

test("a finished lane computes nothing more and keeps its totals", () => {
  const logs = [lane("none", [7, 8, 9, 7]), lane("paged", [7, 8])];
  const [, short] = raceAt(logs, 4).lanes;
  assert.deepEqual(
    [short.computed, short.seconds, short.totalComputed, short.finished, short.step],
    [0, 0, 4, true, 2],
  );
  assert.equal(raceAt(logs, 3).finished, false);
  assert.equal(raceAt(logs, 4).finished, true);
});

test("equal tokens are the proof, and the first difference has a place", () => {
  assert.deepEqual(compareTokens(raceAt(race(), 4).lanes), { same: 4, difference: null });
  const differs = [lane("none", [7, 8, 9, 7]), lane("contiguous", [7, 8, 6, 7]), lane("paged", [7, 8, 9, 7])];
  assert.deepEqual(compareTokens(raceAt(differs, 4).lanes), { same: 2, difference: 2 });
  assert.deepEqual(compareTokens(raceAt(differs, 2).lanes), { same: 2, difference: null }); // not there yet
});

test("a text that ends early differs where it ends; one that is only behind does not differ yet", () => {
  const ended = raceAt([lane("none", [7, 8, 9]), lane("paged", [7, 8])], 3).lanes;
  assert.deepEqual(compareTokens(ended), { same: 2, difference: 2 });
  const behind = [
    { tokenIds: [7, 8, 9], finished: false },
    { tokenIds: [7, 8], finished: false },
  ];
  assert.deepEqual(compareTokens(behind), { same: 2, difference: null });
});

test("the sums are those of the formula", () => {
  const [none, , paged] = race();
  const expected = expectedComputed(3, 4); // 3 + 4 + 5 + 6, and 3 + 1 + 1 + 1
  assert.deepEqual(expected, { none: 18, cached: 6 });
  assert.deepEqual([computedSoFar(none).at(-1), computedSoFar(paged).at(-1)], [expected.none, expected.cached]);
  assert.deepEqual(computedSoFar(none), [3, 7, 12, 18]);
});

test("time against work: ratios of the sums, medians of the steps after the first", () => {
  const overhead = (n) => 10 + n; // a step costs ten whatever it computes
  const [none, paged] = [lane("none", [7, 8, 9, 7], overhead), lane("paged", [7, 8, 9, 7], overhead)];
  const found = timeAgainstWork(none, paged, 4);
  assert.equal(found.flops, 18 / 6);
  assert.equal(found.time, (13 + 14 + 15 + 16) / (13 + 11 + 11 + 11));
  assert.deepEqual(found.plainStep, { tokens: 5, seconds: 15 });
  assert.deepEqual(found.cachedStep, { tokens: 1, seconds: 11 });
  assert.equal(found.slowest, 11);
  assert.equal(timeAgainstWork(none, paged, 2), null); // one step that decodes is no median
});

test("steps are found as the log grows", () => {
  const whole = lane("paged", [7, 8]);
  assert.deepEqual(stepRecords(whole), [1, 2]);
  assert.deepEqual(stepRecords(new TraceLog(header())), []);
});
