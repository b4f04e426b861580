// Settings of a run: how the cache is laid out, how steps are put together, how tokens are chosen. The controls are
// made of the server's table of options: an option with a control is here without a line of its own.

import { changeConfig } from "../../control/actions.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { Typed } from "../../kit/typed.js";
import { choicesOf, LAYOUT, rowsOf } from "../../state/options.js";
import { applies, chosenOr, defaultOf } from "../../state/run_settings.js";
import { settings } from "../../state/settings.js";
import { noneText, numberText, optionHelp, optionLabel, valueHelp, valueText } from "../../tell/options.js";
import { t } from "../../tell/words.js";

export function CacheSettings() {
  const strategy = settings.strategy.value;
  return html`<div class="group">
    <h3 class="group-title">${t("setup.cache")}</h3>
    <div class="segments" role="radiogroup" aria-label=${optionLabel("strategy")} id="strategy" data-arrows
      onKeyDown=${moveStrategy}>
      ${choicesOf("strategy").map(
        (name) => html`<button
          role="radio"
          aria-checked=${strategy === name}
          tabindex=${strategy === name ? 0 : -1}
          data-strategy=${name}
          class=${strategy === name ? "segment chosen" : "segment"}
          onClick=${() => changeConfig("strategy", name)}
        >
          ${valueText("strategy", name)}
        </button>`,
      )}
    </div>
    <p class="hint two-lines">${valueHelp("strategy", strategy)}</p>
    <div class="fields">${rowsOf("cache").map(
      (row) =>
        row.name !== "strategy" &&
        html`<${EngineField} key=${row.name}
      row=${row} />`,
    )}</div>
  </div>`;
}

/** Arrow keys move between the strategies, as in any group of radio buttons. */
function moveStrategy(event) {
  const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const names = choicesOf("strategy");
  const next = names[(names.indexOf(settings.strategy.value) + by + names.length) % names.length];
  changeConfig("strategy", next);
  event.currentTarget.querySelector(`[data-strategy="${next}"]`).focus();
}

export function SchedulerSettings() {
  return html`<details class="group" id="scheduler">
    <summary class="group-title">${t("setup.scheduler")}<span
      class="summary-values num">${schedulerValues()}</span></summary>
    <div class="fields">${rowsOf("scheduler").map((row) => html`<${EngineField} key=${row.name} row=${row} />`)}</div>
  </details>`;
}

/** What holds, in short, so that it can be seen without opening. */
function schedulerValues() {
  const [seqs, tokens] = ["max_num_seqs", "max_num_batched_tokens"].map(chosenOr);
  return seqs === null ? "" : t("setup.scheduler_values", { seqs, tokens });
}

export function SamplingSettings() {
  return html`<details class="group" id="sampling" open=${innerHeight >= 1000}>
    <summary class="group-title">${t("setup.sampling")}<span
      class="summary-values num">${samplingValues()}</span></summary>
    <div class="fields">${rowsOf("sampling").map((row) => html`<${SamplingField} key=${row.name} row=${row} />`)}</div>
  </details>`;
}

function samplingValues() {
  const temperature = settings.temperature.value;
  const kind = temperature === 0 ? t("setup.greedy_short") : `T ${temperature}`;
  return t("setup.sampling_values", { kind, n: settings.max_tokens.value });
}

const idOf = (row) => row.name.replaceAll("_", "-");
const labelOf = ({ name, control }) =>
  control.term ? html`<${Term} id=${control.term}>${optionLabel(name)}<//>` : optionLabel(name);

/** The control of an engine option. One that stands beside another is there with that one; others are disabled. */
function EngineField({ row }) {
  const { name, kind, control } = row;
  if (row.beside && !applies(name)) return null;
  const shown = { id: idOf(row), label: labelOf(row), hint: optionHelp(name), disabled: !applies(name) };
  const value = chosenOr(name) ?? control.none_as ?? null;
  const commit = (chosen) => changeConfig(name, chosen);
  const usual = html`<${Usual} row=${row} />`;
  if (kind === "switch") return html`<${Switch} ...${shown} value=${!shown.disabled && value} commit=${commit} />`;
  if (kind === "choice") {
    const choices = row.choices.map((choice) => [choice, valueText(name, choice)]);
    return html`<${Choice} ...${shown} value=${value} choices=${choices} commit=${commit}>${usual}<//>`;
  }
  if (control.usual) {
    const choices = withChosen(control.usual, value).map((n) => [
      n,
      n === control.none_as ? noneText(name) : numberText(name, n),
    ]);
    return html`<${Choice} ...${shown} value=${value} choices=${choices}
      commit=${(text) => commit(Number(text))}>${usual}<//>`;
  }
  return html`<${NumberField} ...${shown} value=${value} min=${row.ge} max=${row.le} step=${control.step}
    commit=${commit}>${usual}<//>`;
}

/** The control of a sampling parameter: what is out of range, the server says in a sentence. */
function SamplingField({ row }) {
  const { name, kind, control } = row;
  const shown = { id: idOf(row), label: labelOf(row), hint: optionHelp(name), value: settings[name].value };
  const commit = (chosen) => (settings[name].value = chosen);
  if (kind === "switch") return html`<${Switch} ...${shown} commit=${commit} />`;
  if (kind === "list" || kind === "text") return html`<${TextField} ...${shown} commit=${commit} />`;
  const none = row.optional && control.initial === undefined ? noneText(name) : undefined;
  return html`<${NumberField} ...${shown} step=${control.step} none=${none} commit=${commit} />`;
}

const withChosen = (usual, value) => [...new Set([...usual, value])].sort((a, b) => a - b);

/** One of a few values: [value, text]. */
function Choice({ id, label, hint, disabled, value, choices, commit, children }) {
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <select id=${id} disabled=${disabled} onChange=${(event) => commit(event.currentTarget.value)}>
      ${choices.map(([choice, text]) => html`<option value=${choice} selected=${choice === value}>${text}</option>`)}
    </select>
    ${children}
  </label>`;
}

/** What is on or off. */
function Switch({ id, label, hint, disabled, value, commit }) {
  return html`<label class="field switch" title=${hint}>
    <input id=${id} type="checkbox" disabled=${disabled} checked=${value}
      onChange=${(event) => commit(event.currentTarget.checked)} />
    <span>${label}</span>
  </label>`;
}

function TextField({ id, label, hint, value, commit }) {
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <${Typed} id=${id} type="text" value=${value ?? ""} onChange=${(event) => commit(event.currentTarget.value)} />
  </label>`;
}

/** What the server would do by itself, when something else is chosen. */
function Usual({ row }) {
  const usual = defaultOf(row.name);
  if (usual === undefined || usual === null || chosenOr(row.name) === usual || LAYOUT.includes(row)) return null;
  return html`<small class="usual num">${t("setup.usual", { value: usual })}</small>`;
}

/**
 * A number. Without `min` and `max` the server says what is out of range. `none`: what an empty field means, where it
 * means something.
 */
export function NumberField({ id, label, hint, disabled, value, min, max, step = 1, none, commit, children }) {
  const change = (event) => {
    const field = event.currentTarget;
    const number = field.valueAsNumber;
    const fits = min === undefined ? step !== 1 || Number.isInteger(number) : field.checkValidity();
    if (none !== undefined && field.value === "") commit(null);
    else if (!fits || !Number.isFinite(number)) field.value = value;
    else commit(number);
  };
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <${Typed}
      id=${id}
      type="number"
      inputmode="decimal"
      min=${min}
      max=${max}
      step=${step}
      placeholder=${none ?? ""}
      disabled=${disabled}
      value=${value ?? ""}
      onChange=${change}
    />
    ${children}
  </label>`;
}
