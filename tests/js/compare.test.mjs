// The page's part of a comparison: lanes of tokens, labels, lines, words. The comparison itself is the server's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { operationsOf } from "../../static/js/core/operations.js";
import { entryText, inWords } from "../../static/js/i18n/operations.js";
import { sentencesOf } from "../../static/js/i18n/sentence.js";
import {
  alignedPair,
  bytesOf,
  canStep,
  chosenToken,
  differingOperations,
  foldedPairs,
  isUnsaid,
  linesOf,
  steppable,
} from "../../static/js/panels/compare/comparison.js";
import { firstToken, notes, opDifference, opWords } from "../../static/js/panels/compare/differences.js";
import { differenceText } from "../../static/js/panels/compare/figures.js";
import { verdict } from "../../static/js/panels/compare/token_rows.js";
import { differsAt, labelsOf } from "../../static/js/runs/tokens.js";
import "./words.mjs";

const hex = (text) => Buffer.from(text).toString("hex");
const token = (id, text, record) => ({
  token_id: id,
  token_bytes: hex(text),
  logprob: -1,
  record,
  step: record,
  chosen: false,
});
const figures = (seq, tokens, more = {}) => ({ seq_id: seq, tokens, status: "finished", ...more });

const A = [token(1, "月", 1), token(2, "明", 2), token(3, "星", 3)];
const B = [token(1, "月", 1), token(9, "白", 3)];
const PAIR = {
  request_id: "r",
  number: 0,
  member: 0,
  a: figures(0, A),
  b: figures(0, B),
  same_prompt: true,
  equal_tokens: 1,
  difference: { position: 5 },
};
const DIFFERENCE = {
  record: 2,
  op: 1,
  kind_a: "step",
  kind_b: "adjust",
  a: { type: "sample", seq_id: 0, token_id: 2, sampled_token_id: null },
  b: { type: "choose", seq_id: 0, position: 5, token_id: 9, token_bytes: hex("白") },
};
const COMPARISON = { sequences: [PAIR], first_op: DIFFERENCE };

test("the common prefix is shown once, then both continuations", () => {
  const aligned = alignedPair(PAIR);
  assert.deepEqual(
    [aligned.same, aligned.lanes.map(labelsOf)],
    [
      1,
      [
        ["月", "明", "星"],
        ["月", "白"],
      ],
    ],
  );
  assert.deepEqual(
    aligned.difference.tokens.map((t) => t.token_id),
    [2, 9],
  );
  assert.deepEqual([aligned.difference.place, aligned.difference.step], [1, 3]);
  assert.deepEqual(
    [0, 1, 2].map((place) => differsAt(aligned, place)),
    [false, true, true],
  );
});

test("different prompts share no token, and a missing request has no lane", () => {
  const apart = alignedPair({ ...PAIR, same_prompt: false, equal_tokens: 0, difference: null });
  assert.deepEqual([apart.same, apart.lanes.map((l) => l.length), apart.difference], [0, [3, 2], null]);
  const alone = alignedPair({ ...PAIR, a: null, same_prompt: false, equal_tokens: 0, difference: null });
  assert.deepEqual([alone.same, alone.lanes.map((l) => l.length)], [0, [0, 2]]);
});

const ALL_SAID = { a: [], b: [], source_a: "", source_b: "" };

test("bytes are decoded from hexadecimal text", () => {
  assert.deepEqual([...bytesOf("e69c88")], [0xe6, 0x9c, 0x88]);
  assert.deepEqual([...bytesOf("")], []);
});

test("a pair's verdict", () => {
  const more = { ...PAIR, b: figures(0, A.slice(0, 1)), equal_tokens: 1, difference: null };
  assert.equal(verdict(PAIR), "1 equal token, then apart");
  assert.equal(verdict(more), "1 equal token; one of them has come further");
  assert.equal(verdict({ ...PAIR, b: PAIR.a, equal_tokens: 3, difference: null }), "all 3 tokens equal");
  assert.equal(verdict({ ...PAIR, b: null }), "only in A");
  assert.equal(verdict({ ...PAIR, a: null }), "only in B");
  assert.equal(verdict({ ...PAIR, same_prompt: false }), "other prompts: not compared token by token");
});

test("the first token that differs is quoted from both, and a run may have ended before", () => {
  const first = { request_id: "request-0", number: 0, member: 0, position: 19, a: A[1], b: B[1] };
  const of = (token) => firstToken({ sequences: [PAIR, PAIR], first_token: token, unsaid: ALL_SAID });
  assert.equal(of(first), "First token that differs: request-0, position 19: A “明”, B “白”.");
  assert.match(of({ ...first, b: null }), /A “明”, B had ended\.$/);
  assert.equal(of(null), "No token differs: 2 chosen in both.");
});

test("notes name settings, model, machine and omitted inputs", () => {
  const runs = [
    { status: { fork: null, error: "of no fork" } },
    { status: { fork: { left_out: ["request-1 was left out"] }, error: "it failed" } },
  ];
  const settings = [
    { name: "block_size", a: 4, b: 8 },
    { name: "enable_prefix_caching", a: true, b: false },
    { name: "window", a: null, b: "8" },
  ];
  assert.deepEqual(notes({ settings, same_model: true, same_machine: false, runs, unsaid: ALL_SAID }), [
    "block_size: A 4, B 8",
    "enable_prefix_caching: A on, B off",
    "window: A –, B 8",
    "They ran on different machines, or with other versions: seconds tell of these too.",
    "request-1 was left out",
    "it failed",
  ]);
  assert.deepEqual(notes({ settings: [], same_model: false, same_machine: true, runs: [], unsaid: ALL_SAID }), [
    "The two runs are of different models.",
  ]);
});

test("an unreported figure is not zero", () => {
  const unsaid = { ...ALL_SAID, b: ["flops"], source_b: "vLLM 1" };
  assert.deepEqual(notes({ settings: [], same_model: true, same_machine: true, runs: [], unsaid }), [
    "B is vLLM 1, written down as it ran. Its hashes are names of its own: what they stand for is compared.",
  ]);
  const observed = { ...ALL_SAID, a: ["num_steps", "output_tokens"], source_a: "tcp://x" };
  assert.match(
    notes({ settings: [], same_model: true, same_machine: true, runs: [], unsaid: observed })[0],
    /^A is what/,
  );
  assert.match(firstToken({ sequences: [], first_token: null, unsaid: observed }), /unknown/);
  assert.equal(isUnsaid({ unsaid: observed }, "a", "num_steps"), true);
  assert.equal(isUnsaid({ unsaid: observed }, "b", "num_steps"), false);
});

test("the difference of the second run is formatted", () => {
  assert.deepEqual(
    [differenceText("count", 7, 4), differenceText("count", 7, 7), differenceText("bytes", 1024, 3072)],
    ["−3", "=", "+2\u2009KiB"],
  );
});

test("an operation is described with its token", () => {
  assert.equal(chosenToken(COMPARISON, "a", DIFFERENCE.a, 2), "明");
  assert.equal(chosenToken(COMPARISON, "b", DIFFERENCE.b, 2), "白");
  assert.deepEqual(opDifference(COMPARISON), {
    where: "First operation that differs: record 3, operation 2.",
    a: "“明” is chosen for seq 0.",
    b: "From outside: the token of seq 0 at position 5 will be “白”, whatever is sampled.",
  });
  assert.equal(opDifference({ ...COMPARISON, first_op: null }), null);
});

test("unknown and missing operations are described", () => {
  assert.equal(opWords({ type: "brand_new", seq_id: 1 }, "step"), "brand_new");
  assert.equal(opWords(null, null), "the log ends before this record");
  assert.equal(opWords(null, "step"), "the record has no more operations");
  assert.equal(
    opWords({ type: "write", seq_id: 2, start: 7, num_tokens: 1 }, "step"),
    "K and V of 1 token of seq 2 written, from position 7 on.",
  );
});

test("operations with different counts are listed", () => {
  const of = (operations) => ({ totals: { operations } });
  assert.deepEqual(differingOperations({ a: of({ write: 4, evict: 2 }), b: of({ write: 4, choose: 1 }) }), [
    ["choose", 0, 1],
    ["evict", 2, 0],
  ]);
});

test("both runs are drawn on one scale: the longer one's steps, the larger value", () => {
  const series = (...values) => ({ series: values.map((bytes_held, i) => ({ step: i + 1, bytes_held })) });
  const { a, b, steps, max } = linesOf({ a: series(2, 4), b: series(1, 1, 8, 8) }, (p) => p.bytes_held);
  assert.deepEqual([steps, max], [4, 8]);
  assert.deepEqual(a, [
    [0, 0.25],
    [0.25, 0.25],
    [0.25, 0.5],
    [0.5, 0.5],
  ]);
  assert.deepEqual(b.at(-1), [1, 1]);
  assert.deepEqual(
    linesOf({ a: series(), b: series() }, (p) => p.bytes_held),
    { a: [], b: [], steps: 1, max: 0 },
  );
});

test("loads from outside the pool are listed and in the sentence", () => {
  const choose = { type: "choose", seq_id: 0, position: 5, token_id: 9, token_bytes: new TextEncoder().encode("白") };
  const adjust = { type: "adjust", request_id: "r", seq_ids: [0], max_tokens: 8, sampling: {} };
  const top = [{ token_id: 2, token_bytes: new TextEncoder().encode("明"), logprob: -1 }];
  const step = {
    index: 1,
    kind: "step",
    ops: [
      { type: "sample", seq_id: 0, token_id: 9, sampled_token_id: 2 },
      { type: "sample", seq_id: 1, token_id: 9, sampled_token_id: 7 },
      { type: "sample", seq_id: 2, token_id: 9, sampled_token_id: null },
    ],
    outputs: [0, 1, 2].map((seq_id) => ({ seq_id, token_id: 9, token_bytes: choose.token_bytes, top })),
  };
  const log = { header: { engine: {} }, records: [{ index: 0, kind: "adjust", ops: [choose, adjust] }, step] };
  const chosen = "From outside: the token of seq 0 at position 5 will be “白”, whatever is sampled.";
  assert.deepEqual(operationsOf(log, 0).map(entryText), [
    chosen,
    "From outside: r samples with other parameters from here on, 8 new tokens at most.",
  ]);
  assert.deepEqual(operationsOf(log, 1).map(entryText), [
    "3 tokens chosen, 3 sequences. seq 0: the token was settled from outside; the sampler took “明”. " +
      "seq 1: the token was settled from outside; the sampler took “#7”.",
  ]);
  assert.deepEqual(sentencesOf(log, 0, 0).map(inWords), [
    chosen,
    "From outside: r samples with other parameters from here on.",
  ]);
});

test("operations with equal texts are distinguished by their fields", () => {
  const lookup = { type: "lookup", seq_id: 0, num_tokens: 7, num_hit_tokens: 0, block_ids: [] };
  const first_op = {
    record: 1,
    op: 0,
    kind_a: "step",
    kind_b: "step",
    a: { ...lookup, verdict: "miss", reason: "nothing_shared" },
    b: { ...lookup, verdict: "too_short", reason: null },
  };
  const told = opDifference({ ...COMPARISON, first_op });
  assert.equal(
    told.a,
    "Not one of the 7 tokens of seq 0 hits the prefix cache. No remembered sequence begins like it.",
  );
  assert.equal(told.b, "seq 0 is too short for the prefix cache: 7 tokens have no full block before the last token.");
  const evict = { type: "evict", block_id: 4, seq_id: 0 };
  const apart = { ...first_op, a: { ...evict, lifetime_steps: 1 }, b: { ...evict, lifetime_steps: 2 } };
  const { a, b } = opDifference({ ...COMPARISON, first_op: apart });
  assert.equal(a, "1 cached block evicted (4) to make room. (lifetime_steps 1)");
  assert.equal(b, "1 cached block evicted (4) to make room. (lifetime_steps 2)");
});

test("equal sequences are folded if there are many", () => {
  const same = { ...PAIR, b: PAIR.a, equal_tokens: A.length, difference: null };
  const shorter = { ...PAIR, b: figures(0, A.slice(0, 1)), equal_tokens: 1, difference: null };
  const alone = { ...PAIR, b: null, same_prompt: false, equal_tokens: 0, difference: null };
  assert.deepEqual(foldedPairs([same, same, PAIR]), { shown: [same, same, PAIR], differing: [], same: [] });
  assert.deepEqual(foldedPairs([same, same, shorter, PAIR, alone]), {
    shown: [shorter, PAIR, alone],
    differing: [],
    same: [same, same],
  });
  const many = foldedPairs(Array(12).fill(PAIR));
  assert.deepEqual([many.shown.length, many.differing.length, many.same.length], [8, 4, 0]);
});

test("two runs step together, but not while a fork catches up", () => {
  const run = (mode, unfinished, active) => ({ status: { mode, unfinished, fork: { active } } });
  const [paused, coming, over] = [run("paused", 1, false), run("paused", 1, true), run("paused", 0, false)];
  assert.deepEqual([canStep([paused, coming]), steppable([paused, coming])], [true, []]);
  assert.deepEqual([canStep([paused, over]), steppable([paused, over])], [true, [paused]]);
  assert.deepEqual(steppable([paused, paused]), [paused, paused]);
  assert.equal(canStep([over, over]), false);
});
