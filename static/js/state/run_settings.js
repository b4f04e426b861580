// Mapping between settings and fields of EngineConfig and SamplingParams.

import { ENGINE, LAYOUT, ROWS, SAMPLING } from "./options.js";
import { optionSetting, settings, TABLE } from "./settings.js";
import { firstModel, modelFacts, own } from "./store.js";

/** @import {OptionRow} from "./options.js" */
/** @import {OptionValue} from "./settings.js" */

/** @typedef {Record<string, unknown>} Fields fields of EngineConfig or SamplingParams, by name */

/** Settings with the number of instances of each kind. */
export const ROLES = ["prefill", "decode", "mixed"];

/** Return the server's default configuration; null until it is loaded. */
const serverConfig = () => /** @type {Record<string, OptionValue> | null} */ (modelFacts.value?.config ?? null);

/** Return the server's default of `name`; undefined until it is loaded. @param {string} name */
export const defaultOf = (name) => serverConfig()?.[name];

/**
 * Return the effective value of `name`: the user's choice, else the run's value, else the server's default.
 * @param {string} name
 * @returns {OptionValue}
 */
export const chosenOr = (name) =>
  optionSetting(name).value ??
  /** @type {OptionValue | undefined} */ (own.log.value?.header.engine[name]) ??
  defaultOf(name) ??
  null;

/** Convert a setting to the engine's field: the number that represents "none" becomes null. @param {OptionRow} row */
const asField = ({ name, control }) => {
  const { value } = optionSetting(name);
  return value === control.none_as ? null : value;
};

/** Return the settings as fields of EngineConfig. `fault` is always included, as null for a run without one. */
export function wantedConfig() {
  /** @type {Fields} */
  const fields = { fault: settings.fault.value };
  for (const row of ENGINE) if (optionSetting(row.name).value !== null) fields[row.name] = asField(row);
  for (const { name, beside } of ENGINE) {
    if (!beside) continue;
    if (fields[beside] === null) fields[name] = null;
    else if (!isOn(beside)) delete fields[name];
  }
  return fields;
}

/** Return the settings as fields of SamplingParams. Lists have at most one entry. */
export function wantedSampling() {
  /** @type {Fields} */
  const fields = {};
  for (const { name, kind } of SAMPLING) {
    const { value } = optionSetting(name);
    if (value === null || value === "") continue;
    fields[name] = kind === "list" ? [value] : value;
  }
  return fields;
}

/**
 * Return whether an option applies with this strategy, and the option that it depends on is on.
 * @param {string} name
 * @param {unknown} [strategy]
 */
export function applies(name, strategy = settings.strategy.value) {
  const { strategies, beside } = ROWS[name];
  return (!strategies || strategies.includes(String(strategy))) && (!beside || isOn(beside));
}

/** @param {string} name */
const isOn = (name) => ![0, false, null, ROWS[name].control.none_as].includes(chosenOr(name));

/**
 * Return whether the header of a run under `strategy` contains the chosen value.
 * @param {OptionRow} row
 * @param {unknown} strategy
 */
const isRetained = ({ name, derived_under }, strategy) =>
  applies(name, strategy) && !derived_under?.includes(String(strategy));

/**
 * Return whether a setting that a header lacks is off. An option that depends on another may be missing because the
 * other is off.
 * @param {OptionRow} row
 */
const isOwn = ({ name, beside, control }) => !beside && (control.group !== "instances" || ROLES.includes(name));

/** Return the name of the model for a new run; null until the models are reported. */
export const wantedModel = () => settings.model.value ?? firstModel.value;

/** Number of requested configurations without a response, as `count`. */
export const pendingConfigs = { count: 0 };

/**
 * Set the controls to the shown run's configuration, also if another page chose it. Links name only differences from
 * the server's defaults.
 * @param {Fields} engine of the run's header
 */
export function adoptConfig(engine) {
  if (pendingConfigs.count > 1) return; // this run's settings are outdated, as newer ones are pending
  settings.fault.value = /** @type {string | null} */ (engine.fault ?? null);
  const defaults = serverConfig();
  for (const row of ENGINE) {
    const { name } = row;
    if (!isRetained(row, engine.strategy)) continue;
    if (!(name in engine)) {
      if (isOwn(row) && !LAYOUT.includes(row)) optionSetting(name).value = null;
      continue;
    }
    const [setting, own] = [optionSetting(name), /** @type {OptionValue} */ (engine[name])];
    if (LAYOUT.includes(row)) setting.value = own;
    else if (defaults) setting.value = own === defaults[name] ? null : own;
    else if (setting.value !== null) setting.value = own;
  }
}

/** Set the page's model to that of the shown run. @param {string} name */
export function adoptModel(name) {
  if (pendingConfigs.count > 1 || !firstModel.value) return;
  settings.model.value = name === firstModel.value ? null : name;
}

/**
 * Adopt the server's initial layout values, which depend on the model and may arrive after the page. Values the user
 * chose stay.
 * @param {{name: string, control?: {initial?: unknown} | null}[]} rows rows of the engine's table
 */
export function adoptLayout(rows) {
  for (const { name, control } of rows) {
    const row = LAYOUT.find((one) => one.name === name);
    const initial = /** @type {OptionValue | undefined} */ (control?.initial);
    if (!row || initial === undefined || initial === row.control.initial) continue;
    const setting = optionSetting(name);
    const isChosen = setting.peek() !== TABLE[name].initial;
    row.control.initial = TABLE[name].initial = initial;
    if (!isChosen) setting.value = initial;
  }
}

/** Return the names of the settings that differ from the run's header. */
export function differing() {
  const engine = own.log.value?.header.engine;
  if (!engine) return [];
  const strategy = settings.strategy.value;
  return ENGINE.filter(
    (row) =>
      optionSetting(row.name).value !== null &&
      isRetained(row, strategy) &&
      (row.name in engine ? asField(row) !== engine[row.name] : isOwn(row) && Boolean(asField(row))),
  ).map((row) => row.name);
}

/**
 * Set every field from `config`; fields that it lacks get the server's default.
 * @param {Fields} config
 * @param {Fields} initial the page's own values
 */
export function chooseConfig(config, initial) {
  settings.fault.value = /** @type {string | null} */ (config.fault ?? null);
  for (const row of ENGINE) {
    const value = LAYOUT.includes(row) ? initial[row.name] : defaultOf(row.name);
    optionSetting(row.name).value = /** @type {OptionValue} */ (config[row.name] ?? value ?? null);
  }
}

/**
 * Set every sampling field; fields that `sampling` lacks get the page's initial value.
 * @param {Fields} sampling
 * @param {Fields} initial
 */
export function chooseSampling(sampling, initial) {
  for (const { name, kind } of SAMPLING) {
    const given = sampling[name];
    const value = kind === "list" && Array.isArray(given) ? given[0] : given;
    optionSetting(name).value = /** @type {OptionValue} */ (value ?? initial[name]);
  }
}
