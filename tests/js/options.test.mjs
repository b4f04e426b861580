import assert from "node:assert/strict";
import { test } from "node:test";
import { noneText, numberText, optionHelp, optionLabel, valueHelp, valueText } from "../../static/js/i18n/options.js";
import { ENGINE, LAYOUT, ROWS, rowsOf, SAMPLING } from "../../static/js/state/options.js";
import {
  adoptConfig,
  applies,
  chooseSampling,
  differing,
  pendingConfigs,
  wantedConfig,
  wantedSampling,
} from "../../static/js/state/run_settings.js";
import { parseQuery, settings, TABLE, writeQuery } from "../../static/js/state/settings.js";
import { modelFacts, own } from "../../static/js/state/store.js";
import { tables } from "./options.mjs";
import { speak } from "./words.mjs";

const initial = () => Object.fromEntries(Object.entries(TABLE).map(([name, row]) => [name, row.initial]));
const reset = () => Object.entries(initial()).forEach(([name, value]) => (settings[name].value = value));
modelFacts.value = { config: Object.fromEntries(tables.engine.map((row) => [row.name, row.default])) };

test("every option that is offered is a setting, in a group, with words in both languages", () => {
  for (const row of [...ENGINE, ...SAMPLING]) {
    assert.ok(row.name in settings, row.name);
    assert.ok(rowsOf(row.control.group).includes(row), row.name);
    for (const code of ["en", "zh"]) {
      speak(code);
      for (const text of [optionLabel(row.name), optionHelp(row.name)]) assert.ok(!text.startsWith("option."), text);
    }
  }
});

test("an option's values travel in a link, and those that it does not have are left out", () => {
  const examples = { integer: 7, number: 0.25, switch: true, text: "a", list: "a" };
  for (const row of [...ENGINE, ...SAMPLING]) {
    const example = row.le === undefined ? examples[row.kind] : Math.min(examples[row.kind], row.le);
    const value = row.kind === "choice" ? row.choices.at(-1) : example;
    assert.deepEqual(parseQuery(writeQuery({ ...initial(), [row.name]: value })), { [row.name]: value }, row.name);
  }
  assert.deepEqual(parseQuery("kv_cache_dtype=int5&strategy=int8"), {});
  assert.deepEqual(parseQuery("temperature=1e20&top_p=1.5&max_num_seqs=-1&after=-5&priority=0.5"), {});
});

test("words of values: their own where there are some, else the value itself", () => {
  speak("zh");
  assert.equal(valueText("strategy", "contiguous"), "连续");
  assert.equal(valueText("kv_cache_dtype", "int8"), "int8");
  assert.equal(valueHelp("strategy", "none"), "什么都不留：每一步都重算所有词元。");
  speak("en");
  assert.equal(numberText("sliding_window_pattern", 6), "1 of 6 layers");
  assert.equal(numberText("attention_window", 8), "8");
  assert.equal(noneText("sliding_window_pattern"), "no layer");
});

test("a new run sends the layout and chosen settings", () => {
  reset();
  assert.deepEqual(wantedConfig(), { fault: null, strategy: "paged", block_size: 4, num_blocks: 48 });
  assert.deepEqual(
    Object.keys(wantedConfig()).slice(1),
    LAYOUT.map((row) => row.name),
  );
  settings.attention_window.value = 8;
  settings.attention_sinks.value = 2;
  assert.deepEqual([wantedConfig().attention_window, wantedConfig().attention_sinks], [8, 2]);
  settings.attention_window.value = 0;
  assert.deepEqual([wantedConfig().attention_window, wantedConfig().attention_sinks], [null, null]);
  settings.attention_window.value = null;
  assert.ok(!("attention_sinks" in wantedConfig()), "no window is asked for, so sinks are not either");
});

test("settings missing from a header are off", () => {
  reset();
  const plain = { strategy: "paged", block_size: 4, num_blocks: 48 };
  const run = (engine) => (own.log.value = /** @type {any} */ ({ header: { engine } }));
  run(plain);
  assert.deepEqual(differing(), []);
  for (const [name, value] of [
    ["forget_policy", "h2o"],
    ["mixed", 2],
    ["speculative_config", "{}"],
  ]) {
    settings[name].value = value;
    assert.deepEqual(differing(), [name]);
    adoptConfig(plain);
    assert.equal(settings[name].value, null, "another run is on stage, and it has none");
  }
  settings.routing_policy.value = "round_robin";
  assert.deepEqual(differing(), [], "of one engine");
  run({ ...plain, forget_policy: "h2o", forget_budget: 8 });
  [settings.forget_policy.value, settings.forget_budget.value] = ["off", 8];
  assert.deepEqual(differing(), ["forget_policy"]);
  assert.deepEqual([wantedConfig().forget_policy, wantedConfig().forget_budget], [null, null]);
  own.log.value = null;
  reset();
});

test("applicable options follow from strategy and dependencies", () => {
  reset();
  const under = (strategy) => ENGINE.filter((row) => !applies(row.name, strategy)).map((row) => row.name);
  const beside = ["attention_sinks", "sliding_window_pattern"];
  const forgets = ["forget_budget", "forget_compare"];
  const several = ["prefill", "decode", "mixed"]; // blocks move between them
  assert.deepEqual(under("paged"), [...beside, ...forgets]);
  assert.deepEqual(under("contiguous"), [
    "block_size",
    "enable_prefix_caching",
    ...beside,
    "forget_policy",
    ...forgets,
    ...several,
  ]);
  assert.deepEqual(under("none"), [
    "enable_prefix_caching",
    ...beside,
    "forget_policy",
    ...forgets,
    ...several,
    "speculative_config",
  ]);
});

test("a contiguous run's blocks are derived: the controls keep what was asked for", () => {
  reset();
  adoptConfig({ ...modelFacts.value.config, strategy: "contiguous", block_size: 192, num_blocks: 1, max_num_seqs: 3 });
  const found = ["strategy", "block_size", "num_blocks", "max_num_seqs"].map((name) => settings[name].value);
  assert.deepEqual(found, ["contiguous", 4, 48, 3]);
});

test("choices made while a run starts are kept", () => {
  reset();
  settings.strategy.value = "contiguous"; // chosen after first_fit, which the server begins now
  pendingConfigs.count = 2;
  adoptConfig({ ...modelFacts.value.config, strategy: "first_fit" });
  assert.equal(settings.strategy.value, "contiguous");
  pendingConfigs.count = 0;
  adoptConfig({ ...modelFacts.value.config, strategy: "none" });
  assert.equal(settings.strategy.value, "none");
});

test("sampling as it is sent: one stop text as a list, what is empty left out", () => {
  reset();
  chooseSampling({ temperature: 0.9, stop: ["。", "!"] }, initial());
  assert.equal(settings.stop.value, "。");
  const sent = wantedSampling();
  assert.deepEqual([sent.temperature, sent.stop, "seed" in sent], [0.9, ["。"], false]);
  chooseSampling({}, initial());
  assert.ok(!("stop" in wantedSampling()) && ROWS.stop.may_change);
});
