import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { TraceLog } from "../../static/js/core/log.js";
import { phaseSentencesOf } from "../../static/js/tell/phase_sentence.js";
import { deferred, finished, lookedUp, preempted, sentencesOf } from "../../static/js/tell/sentence.js";
import { fill } from "../../static/js/tell/words.js";
import { header, records } from "./log_builder.mjs";
import { en, zh } from "./words.mjs";

const PHASES = ["schedule", "allocate", "qkv", "write", "attend", "sample"];

function wholeLog() {
  const log = new TraceLog(header({ max_num_batched_tokens: 512 }));
  for (const [record, capture] of records()) log.append(record, capture);
  return log;
}

const inWords = (found, texts = en) => found.map(([key, values]) => fill(texts[key] ?? `no text ${key}`, values));

test("prefill of 5 tokens in blocks of 2: every sub-step with its numbers", () => {
  const log = wholeLog();
  const said = Object.fromEntries(
    PHASES.map((phase) => [phase, inWords(phaseSentencesOf(log, 1, phase, 0)).join(" ")]),
  );
  assert.equal(
    said.schedule,
    "The scheduler took 5 of at most 512 tokens: a prefill of 1 sequence. 0 was admitted from the waiting queue.",
  );
  assert.equal(said.allocate, "3 blocks (0, 1, 2) came from the head of the free queue, which went from 4 to 1.");
  assert.match(
    said.qkv,
    /^Q, K and V of 5 tokens of 1 sequence were computed at once, in 1 layer: 2 query and 1 KV heads of 2 dimensions\.$/,
  );
  assert.match(
    said.write,
    /positions 0–4 of 0 went to 5 slots of 3 blocks \(0, 1, 2\), in each of 1 layer\. 1 full block \(0\) got a hash: others can find it\./,
  );
  assert.match(said.attend, /^Each of the 5 queries of 0 .*: 15 scores a head/); // 1 + 2 + 3 + 4 + 5
  assert.match(said.sample, /was chosen \(p 0\.61\)/); // exp(-0.5)
});

test("a decode step: what is freed at its end is no part of the allocation", () => {
  const log = wholeLog();
  const said = Object.fromEntries(
    PHASES.map((phase) => [phase, inWords(phaseSentencesOf(log, 2, phase, 0)).join(" ")]),
  );
  assert.equal(
    said.schedule,
    "The scheduler took 1 of at most 512 tokens: one decode token of each of 1 running sequence.",
  );
  assert.equal(said.allocate, "No block was needed: position 5 fits into block 2, which 0 holds already.");
  assert.match(said.write, /position 5 went to slot 5 = 2 · 2 \+ 1/);
  assert.match(said.attend, /read 6 keys in 3 blocks/);
  assert.match(said.sample, /is the last.*reached its limit/);
});

test("the largest weight is named where the row was captured", () => {
  const attention = { keyStart: 0, weights: Float32Array.from([0.1, 0.2, 0.6, 0.05, 0.03, 0.02]), layer: 0, head: 1 };
  const [, most] = phaseSentencesOf(wholeLog(), 2, "attend", 0, attention);
  assert.deepEqual(most[1], { layer: 0, head: 1, token: "潮", position: 2, p: "0.60" });
});

/** The values of `NAME = Literal[…]` in the engine's events. */
function literal(name) {
  const source = readFileSync(new URL("../../engine/trace/events.py", import.meta.url), "utf8");
  const body = source.match(new RegExp(`^${name} = Literal\\[([^\\]]*)\\]`, "m"))[1];
  return [...body.matchAll(/"(\w+)"/g)].map((m) => m[1]);
}

test("everything that the engine may say has words in both languages", () => {
  const log = wholeLog();
  const lookup = {
    seq_id: 0,
    num_tokens: 9,
    num_hit_tokens: 4,
    block_ids: [0, 1],
    closest_seq_id: 1,
    num_shared_tokens: 3,
    lost_block_id: 2,
    evicted_in: 6,
    evicted_for: 3,
  };
  const found = [
    ...literal("LookupVerdict").flatMap((verdict) => lookedUp({ ...lookup, verdict }, log)),
    ...literal("LookupReason").flatMap((reason) => lookedUp({ ...lookup, verdict: "miss", reason }, log)),
    ...literal("DeferReason").map((reason) => deferred({ seq_id: 0, reason, needed: 2, available: 0 })),
    ...literal("FinishReason").map((reason) => finished({ seq_id: 0, reason })),
    ...literal("PreemptionMode").map((mode) =>
      preempted({ seq_id: 1, for_seq_id: 0, num_computed_tokens: 8, mode, num_blocks: 2 }),
    ),
    preempted({
      seq_id: 1,
      for_seq_id: 0,
      num_computed_tokens: 8,
      mode: "recompute",
      num_kept_tokens: 4,
      num_recompute_tokens: 4,
    }),
  ];
  for (const texts of [en, zh])
    for (const text of inWords(found, texts)) assert.doesNotMatch(text, /no text|\{\w+[|}]/);
});

test("a preemption says what is lost, what is kept, what is swapped", () => {
  const op = { seq_id: 1, for_seq_id: 0, num_computed_tokens: 8, num_blocks: 2 };
  const say = (more) => inWords([preempted({ ...op, ...more })])[0];
  assert.match(say({ mode: "recompute" }), /8 computed tokens are lost/);
  assert.match(
    say({ mode: "recompute", num_kept_tokens: 4, num_recompute_tokens: 4 }),
    /of its 8 computed tokens 4 stay in the prefix cache, 4 will be computed again/,
  );
  assert.match(say({ mode: "swap" }), /2 blocks of K and V went to CPU memory, nothing is lost/);
});

test("before the first record the page says what to press", () => {
  assert.deepEqual(sentencesOf(wholeLog(), -1, null), [["sentence.start", {}]]);
});
