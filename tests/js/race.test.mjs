import assert from "node:assert/strict";
import { test } from "node:test";

import { show } from "../../static/js/control/drawn.js";
import { TraceLog } from "../../static/js/core/log.js";
import { operationsText } from "../../static/js/panels/race/columns.js";
import {
  cumulativeComputed,
  cumulativeCopied,
  expectedComputed,
  expectedCopied,
  heldInEach,
  laneAt,
  raceAt,
  timeAgainstWork,
  timesComputed,
} from "../../static/js/panels/race/figures.js";
import { decades } from "../../static/js/panels/race/intensity.js";
import { LaneSlots } from "../../static/js/panels/race/lane_slots.js";
import { names, race } from "../../static/js/panels/race/model.js";
import { player } from "../../static/js/panels/race/player.js";
import { agreement, CopyNote, raceSentence, TimeNote } from "../../static/js/panels/race/words.js";
import { verdict } from "../../static/js/runs/words.js";
import { settings } from "../../static/js/state/settings.js";
import { encode } from "../../static/vendor/msgpack/encode.mjs";
import { bytes, header, MEMORY, MODEL, op } from "./log_builder.mjs";
import { speak } from "./words.mjs";

const PER_TOKEN = 2 * 1 * 1 * 2 * 4; // bytes: K and V of one layer, one head of two float32
const SIZE = { none: 2, paged: 2, contiguous: 8, static: 8, concat: 1, dynamic: 1 }; // slots a block; a pool of 8 slots

/**
 * The log of one request with a prompt of three tokens that chooses `chosen`; a step takes `seconds(tokens)`. `more`: of
 * its header.
 */
function lane(strategy, chosen, seconds = (n) => n, more = {}) {
  const size = SIZE[strategy];
  const log = new TraceLog(header({ strategy, num_blocks: 8 / size, block_size: size }, more));
  const prompt = [1, 2, 3];
  const submit = { ...op.submit(0, prompt, chosen.length), prompt_token_bytes: prompt.map((i) => bytes(`p${i}`)) };
  log.append(encode({ index: 0, kind: "submit", step: 0, ops: [submit], timing: { at: 0 }, memory: MEMORY }));
  let blocks = 0;
  chosen.forEach((token, i) => {
    const context = prompt.length + i;
    const start = strategy === "none" || i === 0 ? 0 : context - 1;
    const ops = i === 0 ? [op.admit(0)] : [];
    for (; blocks * size < context; blocks++) ops.push(op.allocate(0, blocks, blocks));
    ops.push(op.write(0, start, context - start), op.sample(0, token));
    const last = i === chosen.length - 1;
    if (last || strategy === "none") for (; blocks > 0; blocks--) ops.push(op.free(0, blocks - 1, "front"));
    if (last) ops.push(op.finish(0));
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
        cache_tensors: {
          copied_bytes: size === 1 ? start * PER_TOKEN : 0, // as concatenation does
          num_copied: size === 1 && start ? 2 : 0,
          storage_bytes: size === 1 ? context * PER_TOKEN : 8 * PER_TOKEN,
        },
        memory: { ...MEMORY, bytes_used: last || strategy === "none" ? 0 : context * PER_TOKEN },
        work: {
          num_tokens: context - start,
          flops: 10 * (context - start),
          weight_bytes: 100,
          kv_read_bytes: context,
          kv_write_bytes: context - start,
        },
      }),
    );
  });
  return log;
}

const lanesOf = (chosen = [7, 8, 9, 7]) => [lane("none", chosen), lane("contiguous", chosen), lane("paged", chosen)];

const differing = () => [lane("none", [7, 8, 9, 7]), lane("contiguous", [7, 8, 6, 7]), lane("paged", [7, 8, 9, 7])];

test("without a cache a step computes every token, with it one", () => {
  const [none, contiguous, paged] = raceAt(lanesOf(), 3).lanes;
  assert.deepEqual([none.computed, contiguous.computed, paged.computed], [5, 1, 1]); // 3 + 2 tokens, the third step
  assert.deepEqual([none.totalComputed, contiguous.totalComputed, paged.totalComputed], [3 + 4 + 5, 3 + 1 + 1, 5]);
  assert.deepEqual([none.totalFlops, paged.totalFlops], [120, 50]);
  assert.deepEqual([none.flops, paged.flops, paged.seconds, paged.totalSeconds], [50, 10, 1, 5]);
});

test("memory is that of the forward pass: contiguous reserves everything, paged the blocks it needs", () => {
  const [none, contiguous, paged] = raceAt(lanesOf(), 3).lanes;
  // five positions with K and V: three blocks of two, or one block of eight
  assert.deepEqual([paged.held, paged.used, paged.wasted], [6 * PER_TOKEN, 5 * PER_TOKEN, PER_TOKEN]);
  assert.deepEqual(
    [contiguous.held, contiguous.used, contiguous.wasted],
    [8 * PER_TOKEN, 5 * PER_TOKEN, 3 * PER_TOKEN],
  );
  assert.deepEqual([none.held, none.used], [6 * PER_TOKEN, 5 * PER_TOKEN]);
  assert.deepEqual([none.kept, none.transient], [0, 6 * PER_TOKEN]); // nothing stays from step to step
  assert.deepEqual([paged.kept, paged.transient], [6 * PER_TOKEN, 0]);
  assert.deepEqual(none.slots, { reserved: 6, read: 0, computed: 5 });
  assert.deepEqual(paged.slots, { reserved: 6, read: 4, computed: 1 });
});

test("bytes moved are weights once a step, K and V read and written; intensity is operations over them", () => {
  const [none, , paged] = raceAt(lanesOf(), 3).lanes;
  // the third step: 3 + 2 tokens in context, all of them computed or only the newest
  assert.deepEqual([none.bytes, paged.bytes], [100 + 5 + 5, 100 + 5 + 1]);
  assert.deepEqual([none.intensity, paged.intensity], [50 / 110, 10 / 106]);
  assert.deepEqual([none.totalBytes, paged.totalBytes], [300 + 2 * (3 + 4 + 5), 300 + (3 + 4 + 5) + (3 + 1 + 1)]);
  assert.equal(raceAt(lanesOf(), 0).lanes[0].intensity, null); // nothing was moved yet
});

test("without a cache a token is computed in every step from its own on, with one once", () => {
  const [none, , paged] = lanesOf();
  assert.deepEqual(timesComputed(none, 4), [4, 4, 4, 3, 2, 1]); // three of the prompt, three chosen: 3 + 4 + 5 + 6
  assert.deepEqual(timesComputed(paged, 4), [1, 1, 1, 1, 1, 1]);
  assert.deepEqual(timesComputed(none, 1), [1, 1, 1]);
  assert.deepEqual(timesComputed(none, 0), []);
});

test("the scale of operations a byte has whole decades, and grows for what lies outside", () => {
  assert.deepEqual(decades([5, null, 0.5]), { low: -1, high: 3 });
  assert.deepEqual(decades([0.02, 1200]), { low: -2, high: 4 });
  assert.deepEqual(decades([null]), { low: -1, high: 3 });
});

const CACHES = ["concat", "dynamic", "static", "paged"];
const caches = (chosen = [7, 8, 9, 7]) => CACHES.map((name) => lane(name, chosen));

test("concatenation copies all earlier positions in each step, and the formula says the same", () => {
  const [concat, , , paged] = caches();
  // steps with 3, 4, 5 and 6 positions: the later three find 3, 4 and 5
  assert.deepEqual(
    cumulativeCopied(concat),
    [0, 3, 7, 12].map((positions) => positions * PER_TOKEN),
  );
  assert.deepEqual(
    [1, 2, 3, 4].map((step) => expectedCopied(3, step)),
    [0, 3, 7, 12],
  );
  assert.deepEqual(cumulativeCopied(paged), [0, 0, 0, 0]);
  const third = laneAt(concat, 3);
  assert.deepEqual([third.copied, third.totalCopied, third.storage], [4 * PER_TOKEN, 7 * PER_TOKEN, 5 * PER_TOKEN]);
  assert.deepEqual([third.kept, third.wasted], [5 * PER_TOKEN, 0]);
});

test("caches in the race say what each copied, and how it was counted", () => {
  settings.lanes.value = "caches";
  const logs = caches();
  const said = (step, phase = "ready") => raceSentence(shown(logs, step, phase));
  assert.equal(said(0), "All four have the prompt: 3 tokens. Nothing is computed yet.");
  assert.match(
    said(3),
    /^Step 3: K and V copied again: torch\.cat 64\u2009B, DynamicCache 64\u2009B, .*Cache 0\u2009B, paged/,
  );
  // 3 + 4 + 5 positions of 16 B; in the last step 6 positions: 6 slots, or 4 blocks of 2 in whole ones
  assert.match(
    said(4, "done"),
    /^After 4 steps and 4 equal tokens .* torch\.cat 192\u2009B, .* Reserved in the last step: torch\.cat 96\u2009B/,
  );
  const note = [CopyNote({ logs, step: 4 }).props.children].flat(9).filter((x) => typeof x === "string");
  assert.match(note.join(""), /copied whole: 192 B in 4 steps\. .* · 16 B: 192 B\./);
  assert.equal(verdict(names(), raceAt(logs, 4).tokens), "4 of 4 the same in all four");
  settings.lanes.value = "strategies";
});

/** Siblings of four, two, one and two KV heads, of two numbers in four bytes; the third says something else at its third. */
const siblings = () =>
  [4, 2, 1, 2].map((heads) =>
    lane("paged", heads === 1 ? [7, 8, 6, 7] : [7, 8, 9, 7], undefined, {
      model: { ...MODEL, num_heads: 4, num_kv_heads: heads },
      kv_bytes_per_token: heads * PER_TOKEN,
    }),
  );

test("models in the race hold as many blocks of other sizes, and write texts of their own", () => {
  settings.lanes.value = "models";
  const logs = siblings();
  const { lanes } = raceAt(logs, 3); // five positions: three blocks of two
  assert.deepEqual(
    lanes.map((one) => [one.perToken, one.blocks, one.kept]),
    [4, 2, 1, 2].map((heads) => [heads * PER_TOKEN, 3, 6 * heads * PER_TOKEN]),
  );
  assert.deepEqual(
    heldInEach(logs[0]),
    [4, 4, 6, 6].map((slots) => slots * 4 * PER_TOKEN), // in each step, also in the last, which frees them
  );
  const said = (step, phase = "ready") => raceSentence(shown(logs, step, phase));
  assert.equal(said(0), "All four have the prompt: 3 tokens. Nothing is computed yet.");
  assert.equal(
    said(2),
    "Step 2: held are MHA 256\u2009B, GQA 128\u2009B, MQA 64\u2009B, hybrid 128\u2009B, each with 2 blocks of K and V. All chose “t8”.",
  );
  assert.match(said(3), /each with 3 blocks of K and V\. Chosen: MHA “t9”, GQA “t9”, MQA “t6”, hybrid “t9”\.$/);
  assert.match(
    said(4, "done"),
    /^After 4 steps .* MHA 384\u2009B, .* MQA 96\u2009B, hybrid 192\u2009B, each with 3 blocks of K and V: 4\.0 times .* part at token 3\.$/,
  );
  assert.equal(agreement(raceAt(logs, 4).tokens), "Other weights, other words: apart from token 3 on");
  assert.equal(agreement(raceAt(logs, 2).tokens), "2 of 2 the same in all four");
  settings.lanes.value = "strategies";
});

test("looking back shows what was", () => {
  const logs = lanesOf();
  assert.deepEqual(
    raceAt(logs, 1).lanes.map((one) => [one.computed, one.totalComputed, one.finished]),
    Array(3).fill([3, 3, false]),
  );
  const before = laneAt(logs[2], 0);
  assert.deepEqual([before.computed, before.held, before.slots], [0, 0, null]);
  assert.deepEqual(raceAt(logs, 0).tokens.lanes, [[], [], []]);
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
  const agreed = raceAt(lanesOf(), 4).tokens;
  assert.deepEqual([agreed.same, agreed.difference], [4, null]);
  const apart = raceAt(differing(), 4).tokens;
  assert.deepEqual([apart.same, apart.difference.place, apart.difference.step], [2, 2, 3]);
  assert.equal(raceAt(differing(), 2).tokens.difference, null); // not there yet
});

test("the sums are those of the formula", () => {
  const [none, , paged] = lanesOf();
  const expected = expectedComputed(3, 4); // 3 + 4 + 5 + 6, and 3 + 1 + 1 + 1
  assert.deepEqual(expected, { none: 18, cached: 6 });
  assert.deepEqual(
    [cumulativeComputed(none).at(-1), cumulativeComputed(paged).at(-1)],
    [expected.none, expected.cached],
  );
  assert.deepEqual(cumulativeComputed(none), [3, 7, 12, 18]);
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

/** The race as the panel has it, at `step`, with what it says. */
function shown(logs, step, phase) {
  race.logs.value = logs;
  race.numSteps.value = 4;
  show(player.shown);
  player.look(step);
  race.phase.value = phase;
  return raceAt(logs, player.shownStep.value);
}

test("the sentence counts what each step computed", () => {
  const said = (step, logs = lanesOf(), phase = "ready") => raceSentence(shown(logs, step, phase));
  assert.equal(said(0), "All three have the prompt: 3 tokens. Nothing is computed yet.");
  assert.equal(said(1), "Step 1: none has a cache yet, so all three computed the prompt’s 3 tokens; all chose “t7”.");
  // the third step has 3 + 2 tokens, of which the cache has all but the newest
  assert.equal(
    said(3),
    "Step 3: without a cache 5 tokens were computed, 4 of them again; with it 1; all three chose “t9”.",
  );
  assert.match(said(3, differing()), /4 of them again; with it 1\. They do not agree: no cache “t9”, contiguous “t6”,/);
  // 3 + 4 + 5 + 6 tokens, and 3 + 1 + 1 + 1
  assert.match(
    said(4, lanesOf(), "done"),
    /18 tokens computed without a cache, 6 with it, 3\.0 times as many .* 4 tokens/,
  );
  assert.match(said(4, differing(), "done"), /The texts differ from token 3 on/);
});

test("before there are lanes the sentence says what to do, and why they could not go on", () => {
  race.reset();
  assert.match(raceSentence(null), /in step in every lane/);
  race.phase.value = "opening";
  assert.equal(raceSentence(null), "The runs are being set up…");
  race.reset();
  race.problem.value = { message: "over max_model_len 16" };
  assert.equal(raceSentence(null), "over max_model_len 16");
  race.problem.value = { message: "" };
  assert.match(raceSentence(null), /The runs ended early/);
  race.reset();
});

test("the verdict is the proof in words, in both languages", () => {
  assert.equal(verdict(names(), raceAt(lanesOf(), 4).tokens), "4 of 4 the same in all three");
  assert.equal(verdict(names(), raceAt(lanesOf(), 0).tokens), "None chosen yet.");
  assert.equal(
    verdict(names(), raceAt(differing(), 4).tokens),
    "Token 3 is the first that differs: no cache “t9”, contiguous “t6”, paged “t9”.",
  );
  speak("zh");
  assert.equal(verdict(names(), raceAt(lanesOf(), 4).tokens), "4 个中 4 个三者相同");
  speak("en");
});

test("a strip is told in slots: read, computed, reserved and empty", () => {
  // five positions at the third step: three blocks of two slots, or one of eight
  const logs = lanesOf();
  const { lanes } = raceAt(logs, 3);
  const labels = names().map((name, index) => LaneSlots({ name, index, lane: lanes[index], logs }).props.label);
  assert.deepEqual(labels, [
    "no cache: 0 positions read from the cache, 5 computed, 1 reserved and empty; " +
      "each of the prompt’s 3 tokens computed 3 times; 12 in all", // 3 + 4 + 5
    "contiguous: 4 positions read from the cache, 1 computed, 3 reserved and empty",
    "paged: 4 positions read from the cache, 1 computed, 1 reserved and empty",
  ]);
});

test("the note on time has this run's ratios and medians, and names a step that something else held up", () => {
  const text = (logs) => [TimeNote({ logs, step: 4 }).props.children].flat(9).filter((x) => typeof x === "string");
  const overhead = (n) => 10 + n;
  const logs = ["none", "contiguous", "paged"].map((name) => lane(name, [7, 8, 9, 7], overhead));
  const [said] = text(logs); // 18 / 6, and (13 + 14 + 15 + 16) / (13 + 11 + 11 + 11)
  assert.match(
    said,
    /^3\.0× the operations, yet 1\.3× the time: a step for 1 token already takes 11\.0\u2009s, one for 5/,
  );
  let calls = 0;
  logs[2] = lane("paged", [7, 8, 9, 7], (n) => (++calls === 3 ? 99 : overhead(n)));
  assert.match(text(logs).join(""), /Something else was at work on this machine: one step took 99\.0\u2009s/);
});

test("operations have a decimal prefix", () => {
  assert.deepEqual([0, 999, 1000, 11_400_000, 2.5e12].map(operationsText), [
    "0",
    "999",
    "1\u2009K",
    "11.4\u2009M",
    "2.5\u2009T",
  ]);
});
