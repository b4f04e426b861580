// The settings of a run as the server names them: which rows of the settings become EngineConfig and SamplingParams.

import { ENGINE, LAYOUT, ROWS, SAMPLING } from "./options.js";
import { optionSetting, settings, TABLE } from "./settings.js";
import { firstModel, modelFacts, own } from "./store.js";

/**
 * @typedef {import("./options.js").OptionRow} OptionRow
 * @typedef {import("./settings.js").OptionValue} OptionValue
 * @typedef {Record<string, unknown>} Fields fields of EngineConfig or SamplingParams, by name
 */

/** Settings that say how many instances of each kind there are. */
export const ROLES = ["prefill", "decode", "mixed"];

/** The server's own configuration, by name; null while it is not known. */
const serverConfig = () => /** @type {Record<string, OptionValue> | null} */ (modelFacts.value?.config ?? null);

/**
 * The server's own value of `name`; undefined while it is not known.
 *
 * @param {string} name
 */
export const defaultOf = (name) => serverConfig()?.[name];

/**
 * What holds for `name`: the choice, else the run's own, else the server's default.
 *
 * @param {string} name
 * @returns {OptionValue}
 */
export const chosenOr = (name) =>
  optionSetting(name).value ??
  /** @type {OptionValue | undefined} */ (own.log.value?.header.engine[name]) ??
  defaultOf(name) ??
  null;

/**
 * A choice as the engine says it: the number that stands for none is null there.
 *
 * @param {OptionRow} row
 */
const asField = ({ name, control }) => {
  const { value } = optionSetting(name);
  return value === control.none_as ? null : value;
};

/** Settings as an EngineConfig's fields; `fault` always, so that a run without one says so. */
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

/** Settings as SamplingParams' fields; the page has one entry of a list at most. */
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
 * Whether the strategy, and the option beside which it stands, leave the option to be chosen.
 *
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
 * Whether the header of a run under `strategy` has the value that was chosen.
 *
 * @param {OptionRow} row
 * @param {unknown} strategy
 */
const isKept = ({ name, derived_under }, strategy) =>
  applies(name, strategy) && !derived_under?.includes(String(strategy));

/**
 * Whether a header that leaves a setting out says that it is off: not where another one is off that it stands beside.
 *
 * @param {OptionRow} row
 */
const isOwn = ({ name, beside, control }) => !beside && (control.group !== "instances" || ROLES.includes(name));

/** The model that a new run is on, by name; null where the server has not said which it has. */
export const wantedModel = () => settings.model.value ?? firstModel.value;

/** How many new configurations were asked for and have no answer yet. */
export const asking = { count: 0 };

/**
 * The controls show the run on stage, no matter which page configured it. A link names only what the server would not
 * do anyway.
 *
 * @param {Fields} engine of the run's header
 */
export function adoptConfig(engine) {
  if (asking.count > 1) return; // what was chosen since is asked for next: this run's settings are the past
  settings.fault.value = /** @type {string | null} */ (engine.fault ?? null);
  const usual = serverConfig();
  for (const row of ENGINE) {
    const { name } = row;
    if (!isKept(row, engine.strategy)) continue;
    if (!(name in engine)) {
      if (isOwn(row) && !LAYOUT.includes(row)) optionSetting(name).value = null;
      continue;
    }
    const [setting, own] = [optionSetting(name), /** @type {OptionValue} */ (engine[name])];
    if (LAYOUT.includes(row)) setting.value = own;
    else if (usual) setting.value = own === usual[name] ? null : own;
    else if (setting.value !== null) setting.value = own;
  }
}

/**
 * The page's model is that of the run on stage.
 *
 * @param {string} name
 */
export function adoptModel(name) {
  if (asking.count > 1 || !firstModel.value) return;
  settings.model.value = name === firstModel.value ? null : name;
}

/**
 * What the page asks for in a new run, as the server has it now: it follows from the model, which may not have been
 * there when the page came. A value that was chosen stays.
 *
 * @param {{name: string, control?: {initial?: unknown} | null}[]} rows of the engine's table
 */
export function adoptLayout(rows) {
  for (const { name, control } of rows) {
    const row = LAYOUT.find((one) => one.name === name);
    const wanted = /** @type {OptionValue | undefined} */ (control?.initial);
    if (!row || wanted === undefined || wanted === row.control.initial) continue;
    const setting = optionSetting(name);
    const isChosen = setting.peek() !== TABLE[name].initial;
    row.control.initial = TABLE[name].initial = wanted;
    if (!isChosen) setting.value = wanted;
  }
}

/** Names of the settings that ask for something else than the run's own header says. */
export function differing() {
  const engine = own.log.value?.header.engine;
  if (!engine) return [];
  const strategy = settings.strategy.value;
  return ENGINE.filter(
    (row) =>
      optionSetting(row.name).value !== null &&
      isKept(row, strategy) &&
      (row.name in engine ? asField(row) !== engine[row.name] : isOwn(row) && Boolean(asField(row))),
  ).map((row) => row.name);
}

/**
 * Set every field as `config` says, and those that it does not name as the server would.
 *
 * @param {Fields} config
 * @param {Fields} initial the page's own values
 */
export function chooseConfig(config, initial) {
  settings.fault.value = /** @type {string | null} */ (config.fault ?? null);
  for (const row of ENGINE) {
    const usual = LAYOUT.includes(row) ? initial[row.name] : defaultOf(row.name);
    optionSetting(row.name).value = /** @type {OptionValue} */ (config[row.name] ?? usual ?? null);
  }
}

/**
 * The same for sampling: a field that `sampling` does not name goes back to the page's own.
 *
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
