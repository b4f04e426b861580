// The settings of a run as the server names them: which rows of the settings become EngineConfig and SamplingParams.

import { settings } from "./settings.js";
import { log, modelFacts } from "./store.js";

/** Rows that the page sets for every run; the others are null until somebody chooses, and then the server's default holds. */
const LAYOUT = ["strategy", "block_size", "num_blocks"];
const OPTIONS = [
  "enable_prefix_caching",
  "kv_cache_dtype",
  "enable_chunked_prefill",
  "max_num_batched_tokens",
  "max_num_seqs",
  "scheduling_policy",
  "preemption_mode",
  "attention_window",
  "attention_sinks",
  "sliding_window_pattern",
];
const SAMPLING = [
  "temperature",
  "top_k",
  "top_p",
  "min_p",
  "repetition_penalty",
  "max_tokens",
  "seed",
  "ignore_eos",
  "n",
];

/** Whether this server's engine has that field. */
export const hasSampling = (name) => name in (modelFacts.value?.sampling ?? {});

/** What K and V may be stored as: the engine's KVCacheDtype. */
export const KV_DTYPES = ["auto", "float32", "float16", "bfloat16", "fp8", "fp8_e4m3", "int8", "int4"];

/** The server's own value of `name`; undefined while it is not known or has no such field. */
export const defaultOf = (name) => modelFacts.value?.config[name];

/** What holds for `name`: the choice, else the run's own, else the server's default. */
export const chosenOr = (name) =>
  settings[name].value ?? log.value?.header.engine[name] ?? modelFacts.value?.config[name] ?? null;

const NONE_AT_0 = new Set(["attention_window", "sliding_window_pattern"]);
const BESIDE_WINDOW = ["attention_sinks", "sliding_window_pattern"];

/** A choice as the engine says it: no window and no pattern, 0 in the settings, are null there. */
const asField = (name, value) => (NONE_AT_0.has(name) && value === 0 ? null : value);

/** Settings as an EngineConfig's fields; `fault` always, so that a run without one says so. */
export function wantedConfig() {
  const fields = { fault: settings.fault.value };
  for (const name of [...LAYOUT, ...OPTIONS])
    if (settings[name].value !== null) fields[name] = asField(name, settings[name].value);
  if (fields.attention_window === null)
    for (const name of BESIDE_WINDOW) fields[name] = null; // they mean something beside a window
  else if (!chosenOr("attention_window")) for (const name of BESIDE_WINDOW) delete fields[name];
  return fields;
}

/** Settings as SamplingParams' fields; `n` only where this server has it and more than one sample is wanted. */
export function wantedSampling() {
  const fields = {};
  for (const name of SAMPLING) {
    const value = settings[name].value;
    if (value === null || (name === "n" && (value === 1 || !hasSampling(name)))) continue;
    fields[name] = value;
  }
  if (settings.stop.value) fields.stop = [settings.stop.value];
  return fields;
}

/** Whether the strategy leaves the field to be chosen: without paging there are no blocks to size and nothing to share. */
export function applies(name, strategy = settings.strategy.value) {
  if (name === "block_size" || name === "num_blocks") return strategy !== "contiguous";
  if (name === "enable_prefix_caching") return strategy === "paged";
  if (BESIDE_WINDOW.includes(name)) return Boolean(chosenOr("attention_window"));
  return true;
}

/** The controls show the run that is there, whoever configured it; a link names only what the server would not do anyway. */
export function adoptConfig(engine) {
  settings.fault.value = engine.fault ?? null;
  const usual = modelFacts.value?.config;
  for (const name of LAYOUT) if (applies(name, engine.strategy)) settings[name].value = engine[name];
  for (const name of OPTIONS) {
    if (!(name in engine) || !applies(name, engine.strategy)) continue;
    if (usual) settings[name].value = engine[name] === usual[name] ? null : engine[name];
    else if (settings[name].value !== null) settings[name].value = engine[name];
  }
}

/** Names of the settings that ask for something else than the run's own header says. */
export function differing() {
  const engine = log.value?.header.engine;
  if (!engine) return [];
  return [...LAYOUT, ...OPTIONS].filter((name) => {
    const value = settings[name].value;
    return value !== null && name in engine && applies(name) && asField(name, value) !== engine[name];
  });
}

/** Set every field as `config` says, and those that it does not name as the server would. */
export function chooseConfig(config, initial) {
  settings.fault.value = config.fault ?? null;
  for (const name of LAYOUT) settings[name].value = config[name] ?? initial[name];
  for (const name of OPTIONS) settings[name].value = config[name] ?? modelFacts.value?.config[name] ?? null;
}

/** The same for sampling: a field that `sampling` does not name goes back to the page's own. */
export function chooseSampling(sampling, initial) {
  for (const name of SAMPLING) settings[name].value = sampling[name] ?? initial[name];
  settings.stop.value = sampling.stop?.[0] ?? "";
}
