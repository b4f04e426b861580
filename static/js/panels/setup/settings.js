// Settings of a run: cache layout, scheduling and sampling. The controls are generated from the server's option table,
// so that a new option with a control appears automatically.

import { changeConfig, changeConfigs } from "../../control/actions.js";
import { noneText, numberText, optionHelp, optionLabel, valueHelp, valueText } from "../../i18n/options.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Numeric, Select, Typed, withChecked, withValue } from "../../kit/inputs.js";
import { Term } from "../../kit/term.js";
import { boundsOf, LAYOUT, offeredOf, rowsOf } from "../../state/options.js";
import { applies, chosenOr, defaultOf, ROLES } from "../../state/run_settings.js";
import { optionSetting, settings } from "../../state/settings.js";

/** @import {Children} from "../../kit/html.js" */
/** @import {OptionRow} from "../../state/options.js" */
/** @import {OptionValue} from "../../state/settings.js" */

/** @typedef {{id: string, label: Children, hint?: string, disabled?: boolean, children?: Children}} Field */

export function CacheSettings() {
  const strategy = settings.strategy.value;
  return html`<div class="group">
    <h3 class="group-title">${t("setup.cache")}</h3>
    <div class="segments" role="radiogroup" aria-label=${optionLabel("strategy")} id="strategy" data-arrows
      onKeyDown=${moveStrategy}>
      ${offeredOf("strategy").map(
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
    <p class="hint two-lines">${valueHelp("strategy", strategy ?? "")}</p>
    <div class="fields">${rowsOf("cache").map(
      (row) =>
        row.name !== "strategy" &&
        html`<${EngineField} key=${row.name}
      row=${row} />`,
    )}</div>
  </div>`;
}

/** Move between strategies with the arrow keys, as in a radio group. @param {KeyboardEvent} event */
function moveStrategy(event) {
  const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key] ?? 0;
  if (!by) return;
  event.preventDefault();
  const names = offeredOf("strategy");
  const next = names[(names.indexOf(settings.strategy.value ?? "") + by + names.length) % names.length];
  changeConfig("strategy", next);
  const group = /** @type {HTMLElement} */ (event.currentTarget);
  /** @type {HTMLElement | null} */ (group.querySelector(`[data-strategy="${next}"]`))?.focus();
}

/**
 * A collapsible group of settings. `values` remain visible.
 * @param {{id: string, title: string, values: string, open?: boolean, children: Children}} props
 */
const Group = ({ id, title, values, open = false, children }) => html`<details class="group" id=${id} open=${open}>
  <summary class="group-title">${title}<span class="summary-values num">${values}</span></summary>
  <div class="fields">${children}</div>
</details>`;

export const SchedulerSettings = () => html`<${Group} id="scheduler" title=${t("setup.scheduler")}
  values=${schedulerValues()}>
  ${rowsOf("scheduler").map((row) => html`<${EngineField} key=${row.name} row=${row} />`)}
<//>`;

/** Current values, visible while the group is collapsed. */
function schedulerValues() {
  const [seqs, tokens] = ["max_num_seqs", "max_num_batched_tokens"].map(chosenOr);
  return seqs === null ? "" : t("setup.scheduler_values", { seqs, tokens });
}

const SHAPES = ["0,0,0", "0,0,2", "1,1,0", "2,1,0", "1,2,0"]; // number of instances of each role

/** Choice between one engine and several instances. */
export function InstanceSettings() {
  const now = ROLES.map((name) => Number(chosenOr(name) ?? 0)).join();
  const shapes = SHAPES.includes(now) ? SHAPES : [...SHAPES, now];
  const choices = shapes.map((shape) => [shape, shapeText(shape)]);
  /** @param {string} text */
  const commit = (text) => {
    const counts = text.split(",").map(Number);
    changeConfigs(Object.fromEntries(ROLES.map((name, i) => [name, counts[i]])));
  };
  const rest = now === SHAPES[0] ? [] : rowsOf("instances").filter(({ name }) => !ROLES.includes(name));
  return html`<${Group} id="instances" title=${t("setup.instances")} values=${shapeText(now)}>
    <${SelectField} id="shape" label=${t("setup.instances")} disabled=${!applies("prefill")} value=${now}
      choices=${choices} commit=${commit} />
    ${rest.map((row) => html`<${EngineField} key=${row.name} row=${row} />`)}
  <//>`;
}

/** @param {string} shape */
function shapeText(shape) {
  const [prefill, decode, mixed] = shape.split(",").map(Number);
  if (!prefill && !decode) return mixed ? t("setup.instances_mixed", { n: mixed }) : t("setup.instances_one");
  return t("setup.instances_apart", { prefill, decode }) + (mixed ? ` + ${mixed}` : "");
}

export const SamplingSettings = () => html`<${Group} id="sampling" title=${t("setup.sampling")}
  values=${samplingValues()} open=${innerHeight >= 1000}>${rowsOf("sampling").map(
    (row) => html`<${SamplingField} key=${row.name} row=${row} />`,
  )}<//>`;

function samplingValues() {
  const temperature = settings.temperature.value;
  const kind = temperature === 0 ? t("setup.greedy_short") : `T ${temperature}`;
  return t("setup.sampling_values", { kind, n: settings.max_tokens.value });
}

/** Summary of the settings of speculative decoding. @param {string} json */
function draftsText(json) {
  const { model, num_speculative_tokens: n } = JSON.parse(json);
  return model ? t("setup.drafts.model", { model, n }) : t("setup.drafts.ngram", { n });
}

/** @param {OptionRow} row */
const idOf = (row) => row.name.replaceAll("_", "-");
/** @param {OptionRow} row */
const labelOf = ({ name, control }) =>
  control.term ? html`<${Term} id=${control.term}>${optionLabel(name)}<//>` : optionLabel(name);

/**
 * Control of an engine option. An option that depends on another one (`beside`) is hidden while that one is off. Other
 * options that do not apply are disabled.
 * @param {{row: OptionRow}} props
 */
function EngineField({ row }) {
  const { name, kind, control } = row;
  if (row.beside && !applies(name)) return null;
  const shown = { id: idOf(row), label: labelOf(row), hint: optionHelp(name), disabled: !applies(name) };
  const value = chosenOr(name) ?? control.none_as ?? null;
  /** @param {OptionValue} chosen */
  const commit = (chosen) => changeConfig(name, chosen);
  /** @param {string} text */
  const commitNumber = (text) => commit(Number(text));
  const defaultNote = html`<${DefaultValue} row=${row} />`;
  if (kind === "switch") return html`<${Switch} ...${shown} value=${!shown.disabled && value} commit=${commit} />`;
  if (kind === "choice") {
    const choices = (row.choices ?? []).map((choice) => [choice, valueText(name, choice)]);
    if (!row.optional)
      return html`<${SelectField} ...${shown} value=${value} choices=${choices} commit=${commit}>${defaultNote}<//>`;
    choices.unshift([String(control.none_as ?? ""), noneText(name)]);
    return html`<${SelectField} ...${shown} value=${value ?? ""} choices=${choices}
      commit=${(/** @type {string} */ chosen) => commit(chosen || null)}>${defaultNote}<//>`;
  }
  if (kind === "text") {
    const texts = [...new Set([control.none_as, ...(control.offered ?? []), value])];
    const choices = texts.map((one) => [one, one === control.none_as ? noneText(name) : draftsText(String(one))]);
    return html`<${SelectField} ...${shown} value=${value} choices=${choices} commit=${commit}>${defaultNote}<//>`;
  }
  if (control.usual) {
    const choices = withChosen(control.usual, value).map((n) => [
      n,
      n === control.none_as ? noneText(name) : numberText(name, n),
    ]);
    return html`<${SelectField} ...${shown} value=${value} choices=${choices}
      commit=${commitNumber}>${defaultNote}<//>`;
  }
  return html`<${NumberField} ...${shown} value=${value} bounds=${boundsOf(row)} step=${control.step}
    commit=${commit}>${defaultNote}<//>`;
}

/** Control of a sampling parameter. @param {{row: OptionRow}} props */
function SamplingField({ row }) {
  const { name, kind, control } = row;
  if (control.only_with && !optionSetting(control.only_with).value) return null;
  const shown = { id: idOf(row), label: labelOf(row), hint: optionHelp(name), value: optionSetting(name).value };
  /** @param {OptionValue} chosen */
  const commit = (chosen) => (optionSetting(name).value = chosen);
  if (kind === "switch") return html`<${Switch} ...${shown} commit=${commit} />`;
  if (kind === "list" || kind === "text") return html`<${TextField} ...${shown} commit=${commit} />`;
  const none = row.optional && control.initial === undefined ? noneText(name) : undefined;
  return html`<${NumberField} ...${shown} bounds=${boundsOf(row)} step=${control.step} none=${none}
    commit=${commit} />`;
}

/** @param {number[]} usual @param {OptionValue} value */
const withChosen = (usual, value) => [...new Set([...usual, Number(value)])].sort((a, b) => a - b);

/**
 * Select control with [value, text] choices.
 * @param {Field & {value: OptionValue, choices: [string | number, string][], commit: (text: string) => void}} props
 */
function SelectField({ id, label, hint, disabled, value, choices, commit, children }) {
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <${Select} id=${id} disabled=${disabled} value=${value} choices=${choices} commit=${commit} />
    ${children}
  </label>`;
}

/** Checkbox control. @param {Field & {value: boolean, commit: (checked: boolean) => void}} props */
function Switch({ id, label, hint, disabled, value, commit }) {
  return html`<label class="field switch" title=${hint}>
    <input id=${id} type="checkbox" disabled=${disabled} checked=${value}
      onChange=${withChecked(commit)} />
    <span>${label}</span>
  </label>`;
}

/** @param {Field & {value: string | null, commit: (text: string) => void}} props */
function TextField({ id, label, hint, value, commit }) {
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <${Typed} id=${id} type="text" value=${value ?? ""} onChange=${withValue(commit)} />
  </label>`;
}

/** The default value, shown if another value is chosen. @param {{row: OptionRow}} props */
function DefaultValue({ row }) {
  const value = defaultOf(row.name);
  if (value === undefined || value === null || chosenOr(row.name) === value || LAYOUT.includes(row)) return null;
  return html`<small class="usual num">${t("setup.usual", { value })}</small>`;
}

/**
 * Number control. `none` is the meaning of an empty field, if that is allowed.
 * @param {Field & {
 *   value: number | null, bounds: import("../../state/options.js").Bounds, step?: number, none?: string,
 *   commit: (n: number | null) => void
 * }} props
 */
export function NumberField({ id, label, hint, disabled, value, bounds, step = 1, none, commit, children }) {
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <${Numeric} id=${id} step=${step} disabled=${disabled} value=${value} bounds=${bounds} none=${none}
      commit=${commit} />
    ${children}
  </label>`;
}
