// Result of a comparison in a sentence, and names of runs in a list.

import assert from "node:assert/strict";
import { test } from "node:test";
import { settingText } from "../../static/js/i18n/options.js";
import { notes } from "../../static/js/panels/compare/differences.js";
import { runName, settingsThatDiffer } from "../../static/js/panels/compare/names.js";
import { outcomeOf, sizeText, verdictText } from "../../static/js/panels/compare/verdict.js";
import { speak } from "./words.mjs";

const TOTALS = {
  requests: 40,
  preemptions: 46,
  hit_tokens: 100,
  num_steps: 400,
  computed_tokens: 5000,
  seconds: 10,
  bytes_peak: 3 << 20,
  wasted_peak: 0,
  swapped_bytes: 0,
  evictions: 2,
  copies: 0,
  output_tokens: 900,
};
const PAIR = { a: {}, b: {}, same_prompt: true };
const comparison = (b, settings = [], more = {}) => ({
  a: { totals: TOTALS },
  b: { totals: { ...TOTALS, ...b } },
  same_machine: true,
  same_model: true,
  settings,
  sequences: [PAIR],
  unsaid: { a: [], b: [], source_a: "", source_b: "" },
  ...more,
});
const pool = (a, b) => ({ name: "num_blocks", a, b });

test("an unreported figure differs from nothing", () => {
  speak("en");
  const unsaid = { a: [], b: ["preemptions"], source_a: "", source_b: "x" };
  assert.equal(outcomeOf(comparison({ preemptions: 0 }, [], { unsaid })), null);
  const nothing = { ...unsaid, b: ["num_steps"] };
  assert.match(verdictText(comparison({}, [], { unsaid: nothing })), /watched from outside/);
});

test("the largest difference of a kind that counts, and the pool that goes with it", () => {
  speak("en");
  const found = comparison({ preemptions: 71, bytes_peak: 2 << 20 }, [pool(96, 64)]);
  assert.equal(verdictText(found), "B preempted 71 times, A 46: its pool is a third smaller."); // (71 − 46) / 71 = 35 %
  speak("zh");
  assert.equal(verdictText(found), "B 抢占 71 次，A 抢占 46 次：前者的块池小三分之一。");
  speak("en");
});

test("the cache with the longer prefix is named first, with its settings", () => {
  const settings = [
    { name: "max_num_seqs", a: 8, b: 4 },
    { name: "enable_prefix_caching", a: true, b: false },
  ];
  assert.equal(
    verdictText(comparison({ hit_tokens: 0 }, settings)),
    "A found 100 tokens in the prefix cache, B 0: its max_num_seqs is 8, not 4; its enable_prefix_caching is on, not off.",
  );
});

test("of many settings three are named; other requests and another model are causes too", () => {
  const settings = ["a", "b", "c", "d", "e"].map((name) => ({ name, a: 1, b: 2 }));
  const text = verdictText(
    comparison({ num_steps: 200 }, settings, { same_model: false, sequences: [{ ...PAIR, b: null }] }),
  );
  assert.match(
    text,
    /^A took 400 steps, B 200: its model is another one; its requests are not the same ones; its a is/,
  );
  assert.match(text, /its c is 1, not 2; 2 more settings differ\.$/);
});

test("ablations are named in verdict, notes and run names", () => {
  const off = { name: "ablate", a: null, b: "2.0@5 1@7" };
  const run = { config: { ablate: "1@7" }, model: "m", preview: "a", records: 3, requests: null };
  speak("en");
  const parts = "head 0 of layer 2 from record 6 on, layer 1 from record 8 on";
  assert.match(verdictText(comparison({ num_steps: 500 }, [off])), new RegExp(`: it runs without ${parts}\\.$`));
  assert.match(verdictText(comparison({ num_steps: 200 }, [off])), /: it runs with all heads and layers\.$/);
  const other = { same_model: true, same_machine: true, runs: [], unsaid: comparison({}).unsaid };
  assert.deepEqual(notes({ settings: [off], ...other }), [`Switched off: A nothing, B ${parts}`]);
  assert.match(runName(run, ["ablate"]), /Switched off layer 1 from record 8 on$/);
  speak("zh");
  assert.match(verdictText(comparison({ num_steps: 500 }, [off])), /前者的第 2 层的头 0（从记录 6 起）、.*关掉了。$/);
  assert.match(notes({ settings: [off], ...other })[0], /^关掉的部分：A 无，B 第 2 层的头 0/);
  speak("en");
});

test("switches are worded as on or off", () => {
  speak("en");
  assert.equal(settingText("forget_compare", true), "Compare with the full cache: on");
  assert.equal(settingText("enable_prefix_caching", false), "Prefix caching: off");
  assert.equal(settingText("forget_budget", 16), "Budget 16");
  assert.equal(settingText("forget_policy", "h2o"), "Forget H2O");
  speak("zh");
  assert.equal(settingText("forget_compare", true), "与完整缓存比较：开");
  speak("en");
});

test("blocks of another size: their number alone says nothing of the pool", () => {
  const settings = [pool(96, 48), { name: "block_size", a: 4, b: 8 }];
  assert.match(
    verdictText(comparison({ num_steps: 200 }, settings)),
    /its num_blocks is 96, not 48; its block_size is 4, not 8/,
  );
});

test("differences under 5 % and times of two machines are omitted", () => {
  assert.equal(outcomeOf(comparison({ preemptions: 45 })), null);
  assert.equal(verdictText(comparison({})), "Nothing that the two runs count differs by 5 % or more.");
  assert.equal(
    verdictText(comparison({}, [pool(10, 20)])),
    "Nothing that the two runs count differs by 5 % or more, although in B its pool is twice as large.",
  );
  assert.equal(outcomeOf(comparison({ seconds: 20 })).name, "seconds");
  assert.equal(outcomeOf(comparison({ seconds: 11.5 })), null); // a clock differs by itself
  assert.equal(outcomeOf(comparison({ seconds: 20 }, [], { same_machine: false })), null);
  assert.equal(verdictText(comparison({ evictions: 4 })), "B evicted 4 cached blocks, A 2, under the same settings.");
});

test("ratios of sizes in words", () => {
  for (const [ratio, text] of [
    [0.5, "half as large"],
    [2 / 3, "a third smaller"],
    [0.75, "a quarter smaller"],
    [1 / 3, "two thirds smaller"],
    [2, "twice as large"],
    [3.5, "3.5 times as large"],
    [0.88, "12 % smaller"],
    [1.25, "25 % larger"],
    [0.999, "1 % smaller"],
  ])
    assert.equal(sizeText(ratio), text);
});

const RUN = {
  id: "T",
  name: "",
  group: "own",
  config: { strategy: "paged", num_blocks: 96, seed: 1, block_size: 4 },
  records: 12,
  requests: 3,
  preview: "春江潮水连海平，海上明月共潮生。",
  model: "tang",
  created: "2026-01-02T03:04:05",
  fork: null,
};

test("runs are told apart by their prompt, their requests, the settings that differ and their time", () => {
  const other = { ...RUN, config: { ...RUN.config, num_blocks: 64, seed: 2 } };
  const differing = settingsThatDiffer([RUN, other]);
  assert.deepEqual(differing, ["num_blocks"]); // no two runs share a seed
  assert.deepEqual(settingsThatDiffer([RUN], [RUN, { ...RUN, model: "song" }]), ["model"]);
  assert.equal(runName(RUN, ["model"], new Date("2026-01-02T20:00:00")).split(" · ")[2], "tang");
  const today = new Date("2026-01-02T20:00:00");
  assert.equal(runName(RUN, differing, today), "“春江潮水连海平，海上…” · 3 requests · num_blocks 96 · 03:04");
  assert.equal(runName(other, differing, today), "“春江潮水连海平，海上…” · 3 requests · num_blocks 64 · 03:04");
  assert.equal(
    runName({ ...RUN, requests: 1 }, [], new Date("2026-02-01")),
    "“春江潮水连海平，海上…” · 1 request · 2026-01-02 03:04",
  );
  assert.equal(
    runName({ ...RUN, name: "mine", fork: { at: 7 } }, [], today),
    "mine · fork after record 7 · 3 requests · 03:04",
  );
  const unnamed = { ...RUN, name: "tang 2026-01-02 03:04", preview: "", requests: null };
  assert.equal(runName(unnamed, [], today), "no prompt yet · 12 records · 03:04"); // the server's own name says nothing
});
