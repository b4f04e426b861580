// The settings of a run as the server names them: which rows of the settings become EngineConfig and SamplingParams.

import { ENGINE, LAYOUT, ROWS, SAMPLING } from "./options.js";
import { settings } from "./settings.js";
import { log, modelFacts } from "./store.js";

/** The server's own value of `name`; undefined while it is not known. */
export const defaultOf = (name) => modelFacts.value?.config[name];

/** What holds for `name`: the choice, else the run's own, else the server's default. */
export const chosenOr = (name) =>
  settings[name].value ?? log.value?.header.engine[name] ?? modelFacts.value?.config[name] ?? null;

/** A choice as the engine says it: the number that stands for none is null there. */
const asField = ({ name, control }) => (settings[name].value === control.none_as ? null : settings[name].value);

/** Settings as an EngineConfig's fields; `fault` always, so that a run without one says so. */
export function wantedConfig() {
  const fields = { fault: settings.fault.value };
  for (const row of ENGINE) if (settings[row.name].value !== null) fields[row.name] = asField(row);
  for (const { name, beside } of ENGINE) {
    if (!beside) continue;
    if (fields[beside] === null) fields[name] = null;
    else if (!chosenOr(beside)) delete fields[name];
  }
  return fields;
}

/** Settings as SamplingParams' fields; the page has one entry of a list at most. */
export function wantedSampling() {
  const fields = {};
  for (const { name, kind } of SAMPLING) {
    const value = settings[name].value;
    if (value === null || value === "") continue;
    fields[name] = kind === "list" ? [value] : value;
  }
  return fields;
}

/** Whether the strategy, and the option beside which it stands, leave the option to be chosen. */
export function applies(name, strategy = settings.strategy.value) {
  const { strategies, beside } = ROWS[name];
  return (!strategies || strategies.includes(strategy)) && (!beside || Boolean(chosenOr(beside)));
}

/** Whether the header of a run under `strategy` has the value that was chosen. */
const isKept = ({ name, derived_under }, strategy) => applies(name, strategy) && !derived_under?.includes(strategy);

/** The controls show the run on stage, whoever configured it; a link names only what the server would not do anyway. */
export function adoptConfig(engine) {
  settings.fault.value = engine.fault ?? null;
  const usual = modelFacts.value?.config;
  for (const row of ENGINE) {
    const { name } = row;
    if (!(name in engine) || !isKept(row, engine.strategy)) continue;
    if (LAYOUT.includes(row)) settings[name].value = engine[name];
    else if (usual) settings[name].value = engine[name] === usual[name] ? null : engine[name];
    else if (settings[name].value !== null) settings[name].value = engine[name];
  }
}

/** Names of the settings that ask for something else than the run's own header says. */
export function differing() {
  const engine = log.value?.header.engine;
  if (!engine) return [];
  const strategy = settings.strategy.value;
  return ENGINE.filter(
    (row) =>
      settings[row.name].value !== null &&
      row.name in engine &&
      isKept(row, strategy) &&
      asField(row) !== engine[row.name],
  ).map((row) => row.name);
}

/** Set every field as `config` says, and those that it does not name as the server would. */
export function chooseConfig(config, initial) {
  settings.fault.value = config.fault ?? null;
  for (const row of ENGINE) {
    const usual = LAYOUT.includes(row) ? initial[row.name] : modelFacts.value?.config[row.name];
    settings[row.name].value = config[row.name] ?? usual ?? null;
  }
}

/** The same for sampling: a field that `sampling` does not name goes back to the page's own. */
export function chooseSampling(sampling, initial) {
  for (const { name, kind } of SAMPLING) {
    const value = kind === "list" ? sampling[name]?.[0] : sampling[name];
    settings[name].value = value ?? initial[name];
  }
}
