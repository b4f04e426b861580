// Form fields for each kind of change that a fork can begin with.

import { useState } from "../../../vendor/preact/hooks.js";
import { canFork, fork, progress } from "../../control/fork.js";
import { sequenceName } from "../../i18n/operations.js";
import { optionLabel, valueText } from "../../i18n/options.js";
import { probabilityText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Numeric, Select } from "../../kit/inputs.js";
import { labelOf } from "../../runs/tokens.js";
import { quoted } from "../../runs/words.js";
import { boundsOf, LAYOUT, SAMPLING } from "../../state/options.js";
import { wantedSampling } from "../../state/run_settings.js";
import { log, record, state, viewIndex } from "../../state/store.js";

/** @import {StepRecord} from "../../core/trace.js" */

/**
 * @typedef {import("../../state/options.js").OptionRow} Row
 * @typedef {Event & {currentTarget: HTMLInputElement | HTMLSelectElement}} Entered
 */

/** @param {{change: import("../../control/fork.js").Change | null}} props */
function ForkButton({ change }) {
  const off = !change || !canFork.value || Boolean(progress.value);
  return html`<button class="command primary" id="fork-make" disabled=${off} onClick=${() => change && fork(change)}>
    <${Icon} name="fork" /><span>${t("fork.make")}</span>
  </button>`;
}

/**
 * @typedef {{
 *   id: string,
 *   label: string,
 *   choices: [key: string | number, text: string][],
 *   value: string | number | undefined,
 *   choose: (key: string) => void,
 * }} SelectFieldProps
 * @param {SelectFieldProps} props
 */
function SelectField({ id, label, choices, value, choose }) {
  return html`<label class="field"><span>${label}</span>
    <${Select} id=${id} value=${value} choices=${choices} commit=${choose} /></label>`;
}

/**
 * @typedef {Record<string, string>} Fields entered value by option
 * @typedef {{row: Row, fields: Fields, previous: Record<string, unknown>, set: (fields: Fields) => void}} NumberProps
 *
 * Field of a numeric option. An empty field leaves the value unchanged.
 * @param {NumberProps} props
 */
function NumberField({ row, fields, previous, set }) {
  const { name, kind } = row;
  const commit = (/** @type {number | null} */ n) => set({ ...fields, [name]: n === null ? "" : String(n) });
  return html`<label class="field"><span>${optionLabel(name)}</span>
    <${Numeric} id=${`fork-${name.replaceAll("_", "-")}`} step=${kind === "integer" ? 1 : "any"}
      value=${fields[name] ?? ""} bounds=${boundsOf(row)} none=${String(previous[name] ?? "–")}
      commit=${commit} eager /></label>`;
}

/** Fields that replace a token sampled in this record. */
export function TokenFields() {
  const now = /** @type {StepRecord | null} */ (record.value);
  const all = now?.outputs ?? []; // speculative decoding: several outputs per sequence, only the first is replaceable
  const outputs = all.filter(({ seq_id }, i) => all.findIndex((one) => one.seq_id === seq_id) === i);
  const [seq, setSeq] = useState(/** @type {number | null} */ (null));
  const [token, setToken] = useState(/** @type {number | null} */ (null));
  const output = outputs.find((o) => o.seq_id === seq) ?? outputs[0];
  if (!now || !output) return html`<p class="hint" id="fork-nothing">${t("fork.nothing.token")}</p>`;
  const others = output.top.filter((c) => c.token_id !== output.token_id);
  const taken = others.find((c) => c.token_id === token) ?? others[0];
  const word = (/** @type {{token_bytes: Uint8Array}} */ c) => quoted(labelOf(c.token_bytes));
  const change = taken && {
    kind: "token",
    seq_id: output.seq_id,
    token_id: taken.token_id,
    record: now.index,
  };
  return html`<div class="fork-fields">
    <${SelectField}
      id="fork-seq"
      label=${t("fork.sequence")}
      value=${output.seq_id}
      choose=${(/** @type {string} */ id) => setSeq(Number(id))}
      choices=${outputs.map((o) => [o.seq_id, `${sequenceName(o.seq_id)}: ${word(o)}`])}
    />
    <${SelectField}
      id="fork-instead"
      label=${t("fork.instead")}
      value=${taken?.token_id}
      choose=${(/** @type {string} */ id) => setToken(Number(id))}
      choices=${others.map((c) => [c.token_id, `${word(c)} (p ${probabilityText(Math.exp(c.logprob))})`])}
    />
    <${ForkButton} change=${change ?? null} />
  </div>`;
}

export function RequestFields() {
  const [text, setText] = useState("");
  const entered = (/** @type {Entered} */ event) => setText(event.currentTarget.value);
  return html`<div class="fork-fields">
    <label class="field wide"><span>${t("fork.prompt")}</span>
      <input id="fork-prompt" type="text" value=${text} onInput=${entered} /></label>
    <${ForkButton} change=${text ? { kind: "request", text, sampling: wantedSampling() } : null} />
  </div>`;
}

/** Choice among the requests unfinished after the shown record; `id` is null if there are none. */
function useRequest() {
  const [chosen, setChosen] = useState(/** @type {string | null} */ (null));
  const now = state.value;
  const ids = now ? [...now.running, ...now.waiting].map((id) => now.sequences.get(id)?.request_id ?? "") : [];
  const available = [...new Set(ids)];
  const id = chosen !== null && available.includes(chosen) ? chosen : available[0];
  if (!id) return { id: null, pick: html`<p class="hint" id="fork-nothing">${t("fork.nothing.request")}</p>` };
  const choices = available.map((name) => [name, name]);
  const label = t("fork.request");
  return {
    id,
    pick: html`<${SelectField} id="fork-request" label=${label} value=${id} choose=${setChosen} choices=${choices} />`,
  };
}

export function AbortFields() {
  const { id, pick } = useRequest();
  if (id === null) return pick;
  return html`<div class="fork-fields">${pick} <${ForkButton} change=${{ kind: "abort", request_id: id }} /></div>`;
}

const CHANGING = SAMPLING.filter((row) => row.may_change && ["integer", "number"].includes(row.kind));

/** Fields for sampling parameters. Empty fields leave the values unchanged. */
export function SamplingFields() {
  const { id, pick } = useRequest();
  const [fields, setFields] = useState(/** @type {Fields} */ ({}));
  if (id === null) return pick;
  const previous = samplingOf(id);
  const filled = Object.entries(fields).filter(([, value]) => value !== "");
  const sampling = Object.fromEntries(filled.map(([name, value]) => [name, Number(value)]));
  return html`<div class="fork-fields">
    ${pick}
    ${CHANGING.map(
      (row) =>
        html`<${NumberField} key=${row.name} row=${row} fields=${fields} previous=${previous} set=${setFields} />`,
    )}
    <${ForkButton} change=${filled.length ? { kind: "sampling", request_id: id, sampling } : null} />
  </div>`;
}

/**
 * Return the sampling parameters of a request at the shown record: as submitted, or as adjusted since.
 * @param {string} requestId
 * @returns {Record<string, unknown>}
 */
function samplingOf(requestId) {
  const records = /** @type {StepRecord[]} */ (log.value?.records ?? []);
  for (const { ops = [] } of records.slice(0, viewIndex.value + 1).reverse())
    for (const op of [...ops].reverse())
      if ((op.type === "submit" || op.type === "adjust") && op.request_id === requestId) return op.sampling ?? {};
  return {};
}

/** Fields for the options that determine the cache layout. */
export function ConfigFields() {
  const engine = /** @type {import("../../core/trace.js").Header | undefined} */ (log.value?.header)?.engine ?? {};
  const [fields, setFields] = useState(/** @type {Fields} */ ({}));
  const chosenValue = (/** @type {Row} */ { name, kind }) =>
    kind === "integer" ? Number(fields[name] || engine[name]) : (fields[name] ?? engine[name]);
  const options = Object.fromEntries(LAYOUT.map((row) => [row.name, chosenValue(row)]));
  const config = Object.fromEntries(Object.entries(options).filter(([name, value]) => value !== engine[name]));
  const pick = (/** @type {Row} */ { name, choices }) => html`<${SelectField}
    key=${name}
    id=${`fork-${name}`}
    label=${optionLabel(name)}
    value=${options[name]}
    choose=${(/** @type {string} */ value) => setFields({ ...fields, [name]: value })}
    choices=${(choices ?? []).map((choice) => [choice, valueText(name, choice)])}
  />`;
  const number = (/** @type {Row} */ row) =>
    html`<${NumberField} key=${row.name} row=${row} fields=${fields} previous=${engine} set=${setFields} />`;
  return html`<div class="fork-fields">
    ${LAYOUT.map((row) => (row.kind === "choice" ? pick(row) : number(row)))}
    <${ForkButton} change=${Object.keys(config).length ? { kind: "config", config } : null} />
  </div>`;
}
