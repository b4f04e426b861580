import assert from "node:assert/strict";
import { test } from "node:test";
import { TraceLog } from "../../static/js/core/log.js";
import { inWords } from "../../static/js/i18n/operations.js";
import { plainSentencesOf } from "../../static/js/i18n/plain_sentence.js";
import { sentencesOf } from "../../static/js/i18n/sentence.js";
import { phaseSentencesOf } from "../../static/js/panels/transport/phase_sentence.js";
import { loaded } from "./histories.mjs";
import { header, op, records, recordsOf } from "./log_builder.mjs";
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

test("an empty log says what to press, a log looked at from before its beginning that it does", () => {
  assert.deepEqual(sentencesOf(new TraceLog(header()), -1, null), [["sentence.start", {}]]);
  assert.deepEqual(plainSentencesOf(new TraceLog(header()), -1, null), [["sentence.start.plain", {}]]);
  for (const tell of [sentencesOf, plainSentencesOf])
    assert.deepEqual(tell(wholeLog(), -1, null), [["sentence.before", {}]]);
});

/** The record in plain words. */
const plainly = (log, index, seq = 0) => plainSentencesOf(log, index, seq).map(inWords).join(" ");

/** A log of two sequences, as {ops, batch?, kind?} of each record. */
function logOf(steps, engine = {}) {
  const log = new TraceLog(header({ max_num_batched_tokens: 512, ...engine }));
  for (const record of recordsOf(steps)) log.append(record);
  return log;
}

test("in plain words the first prefill names no prefix cache, queue or scheduler", () => {
  assert.equal(
    plainly(wholeLog(), 1),
    "The model read the whole prompt at once: 5 tokens, and for each a key and a value, kept in 3 blocks (0–2). " +
      "Next: “E6” (p 0.61).",
  );
});

test("a plain decode begins with what is new: the token that was chosen", () => {
  const said = plainly(wholeLog(), 2);
  assert.match(
    said,
    /^Next: “海 2\/2” \(p 0\.37\)\. Only “海 1\/2” was computed for it: its query read the 6 keys in 3 blocks;/,
  );
  assert.match(said, /seq 0 is done: it has as many tokens as it may have\./);
});

test("every sub-step of a plain telling is in words that need no other", () => {
  const said = PHASES.map((phase) => phaseSentencesOf(wholeLog(), 2, phase, 0, null, "plain").map(inWords).join(" "));
  assert.deepEqual(said.slice(0, 5), [
    "This step computes one token for each running sequence: 1.",
    "No new block is needed: there is room in block 2.",
    "From “海 1/2” the model made a query, a key and a value, in each of its 1 layer.",
    "The new key and value went to block 2, slot 1. The query is not kept: no later step reads it.",
    "The query of “海 1/2” was compared with 6 keys, in 3 blocks: the better a key fits, the more of its value is read.",
  ]);
});

test("a hit is told before what was computed, and the usual is not explained beside it", () => {
  const tokens = [1, 2, 3];
  const log = logOf([
    { kind: "submit", ops: [op.submit(0, tokens)] },
    {
      ops: [
        op.admit(0),
        op.allocate(0, 0, 0),
        op.allocate(0, 1, 1),
        op.write(0, 0, 3),
        op.cache(0, 0, 0, "h0", [1, 2]),
        op.sample(0),
      ],
      batch: [op.entry(0, "prefill", 0, tokens)],
    },
    { kind: "submit", ops: [op.submit(1, tokens)] },
    {
      ops: [
        { type: "lookup", seq_id: 1, verdict: "hit", num_tokens: 3, num_hit_tokens: 2, block_ids: [0] },
        op.share(1, 0, 0, false),
        op.admit(1, 2),
        op.allocate(1, 2, 1),
        op.write(0, 3, 1),
        op.write(1, 2, 1),
        op.sample(0),
        op.sample(1),
      ],
      batch: [op.entry(0, "decode", 3, [7]), op.entry(1, "prefill", 2, [3])],
    },
  ]);
  const hit = "2 of the 3 tokens of seq 1 had been computed before: its table points to their 1 block (0).";
  const rest = "Only the other 1 was computed, into 1 block (2). Next in seq 1: “x” (p 0.37).";
  assert.equal(plainly(log, 3, 1), `${hit} ${rest}`);
  assert.equal(plainly(log, 3, 0), `${hit} Next in seq 0: “x” (p 0.37).`);
});

test("that a sequence waits is told once, not in every step", () => {
  const waits = { type: "defer", seq_id: 1, reason: "max_num_seqs", needed: 1, available: 0 };
  const decode = (start) => ({
    ops: [op.write(0, start, 1), op.sample(0), waits],
    batch: [op.entry(0, "decode", start, [7])],
  });
  const log = logOf([
    { kind: "submit", ops: [op.submit(0, [1, 2]), { ...op.submit(1, [1]), queue_position: 1 }] },
    {
      ops: [op.admit(0), op.allocate(0, 0, 0), op.allocate(0, 1, 1), op.write(0, 0, 2), op.sample(0), waits],
      batch: [op.entry(0, "prefill", 0, [1, 2])],
    },
    decode(2),
  ]);
  assert.match(plainly(log, 1), /seq 1 waits/);
  assert.doesNotMatch(plainly(log, 2), /waits/);
  assert.match(plainly(log, 2, 1), /^seq 1 waits/, "who looks at it is told why its stage is empty, first");
  assert.match(
    sentencesOf(log, 2, 0).map(inWords).join(" "),
    /seq 1 waits/,
    "who knows the words reads every decision",
  );
});

test("what came from outside the pool is told with both numbers, and what went there", () => {
  const log = loaded();
  const whole = (index) => sentencesOf(log, index, null).map(inWords).join(" ");
  const plain = (index) => plainSentencesOf(log, index, null).map(inWords).join(" ");
  assert.ok(
    whole(5).startsWith(
      "The next 2 tokens of seq 2 were found outside the pool. Loading: about 1.2\u2009ms; computing again: 9\u2009ms. " +
        "Block 1 of seq 2 came from CPU memory.",
    ),
    whole(5),
  );
  assert.ok(
    plain(5).startsWith(
      "The next 2 tokens of seq 2 had been computed before, and their keys and values kept outside the pool. " +
        "Fetching: about 1.2\u2009ms. Computing again: 9\u2009ms. " +
        "1 block (1) of seq 2 comes from CPU memory, already full.",
    ),
    plain(5),
  );
  assert.match(plain(5), /Only the other 1 was computed/);
  assert.match(whole(1), /1 full block \(0\) copied to CPU memory\./);
  assert.match(plain(1), /A copy of 1 full block \(0\) goes to CPU memory, outside the pool\./);
  assert.doesNotMatch(whole(3), /outside the pool/); // nothing was there
  const phase = (index, name) => phaseSentencesOf(log, index, name, null).map(inWords).join(" ");
  assert.match(
    phase(5, "schedule"),
    /found outside the pool\. Loading: about 1\.2\u2009ms; computing again: 9\u2009ms\./,
  );
  assert.match(phase(5, "schedule"), /0 of its tokens cached\. 2 more come from outside the pool\./);
  assert.match(phase(5, "allocate"), /Block 1 of seq 2 came from CPU memory\./);
  assert.match(phase(1, "sample"), /1 full block \(0\) copied to CPU memory\./);
});
