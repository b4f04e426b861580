import assert from "node:assert/strict";
import { test } from "node:test";
import { TraceLog } from "../../static/js/core/log.js";
import { inWords } from "../../static/js/tell/operations.js";
import { phaseSentencesOf } from "../../static/js/tell/phase_sentence.js";
import { sentencesOf } from "../../static/js/tell/sentence.js";
import { header, records } from "./log_builder.mjs";
import { speak } from "./words.mjs";

const PHASES = ["schedule", "allocate", "qkv", "write", "attend", "sample"];

function wholeLog() {
  const log = new TraceLog(header({ max_num_batched_tokens: 512 }));
  for (const [record, capture] of records()) log.append(record, capture);
  return log;
}

speak("en");

test("prefill of 5 tokens in blocks of 2: every sub-step with its numbers", () => {
  const log = wholeLog();
  const said = Object.fromEntries(
    PHASES.map((phase) => [phase, phaseSentencesOf(log, 1, phase, 0).map(inWords).join(" ")]),
  );
  assert.equal(
    said.schedule,
    "The scheduler took 5 of at most 512 tokens: a prefill of 1 sequence. " +
      "seq 0 was admitted from the waiting queue, 0 of its tokens cached.",
  );
  assert.equal(said.allocate, "3 blocks (0–2) came from the head of the free queue, which went from 4 to 1.");
  assert.match(
    said.qkv,
    /^Q, K and V of 5 tokens of 1 sequence were computed at once, in 1 layer: 2 query and 1 KV heads of 2 dimensions\.$/,
  );
  assert.match(
    said.write,
    /positions 0–4 of seq 0 went to 5 slots of 3 blocks \(0–2\), in each of 1 layer\. 1 full block \(0\) got a hash: others can find it\./,
  );
  assert.match(said.attend, /^Each of the 5 queries of seq 0 .*: 15 scores a head/); // 1 + 2 + 3 + 4 + 5
  assert.match(said.sample, /was chosen \(p 0\.61\)/); // exp(-0.5)
});

test("a decode step: what is freed at its end is no part of the allocation", () => {
  const log = wholeLog();
  const said = Object.fromEntries(
    PHASES.map((phase) => [phase, phaseSentencesOf(log, 2, phase, 0).map(inWords).join(" ")]),
  );
  assert.equal(
    said.schedule,
    "The scheduler took 1 of at most 512 tokens: one decode token of each of 1 running sequence.",
  );
  assert.equal(said.allocate, "No block was needed: position 5 fits into block 2, which seq 0 holds already.");
  assert.match(said.write, /position 5 went to slot 5 = 2 · 2 \+ 1/);
  assert.match(said.attend, /read 6 keys in 3 blocks/);
  assert.match(said.sample, /is the last.*reached its limit/);
});

test("the largest weight is named where the row was captured", () => {
  const attention = { keyStart: 0, weights: Float32Array.from([0.1, 0.2, 0.6, 0.05, 0.03, 0.02]), layer: 0, head: 1 };
  const [, most] = phaseSentencesOf(wholeLog(), 2, "attend", 0, attention);
  assert.deepEqual(most[1], { layer: 0, head: 1, token: "潮", position: 2, p: "0.60" });
});

test("before the first record the page says what to press", () => {
  assert.deepEqual(sentencesOf(wholeLog(), -1, null), [["sentence.start", {}]]);
});
