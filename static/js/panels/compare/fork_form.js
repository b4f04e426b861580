// The form of a fork: what to change at the record that one looks at.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { canFork, fork, formOpen, goOnAt, KINDS, kind, problem, progress } from "../../control/fork.js";
import { labelText, loneLabel } from "../../core/labels.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/parts.js";
import { LAYOUT, SAMPLING } from "../../state/options.js";
import { wantedSampling } from "../../state/run_settings.js";
import { log, record, state, viewIndex } from "../../state/store.js";
import { optionLabel, valueText } from "../../tell/options.js";
import { grouped, t } from "../../tell/words.js";

const FIELDS = {
  token: TokenFields,
  request: RequestFields,
  abort: AbortFields,
  sampling: SamplingFields,
  config: ConfigFields,
};

export function ForkForm() {
  const now = kind.value;
  const Fields = FIELDS[now];
  const form = useRef(null);
  useEffect(() => {
    if (goOnAt.value !== "form") return;
    goOnAt.value = null;
    form.current.querySelector('[aria-pressed="true"]').focus();
  }, [goOnAt.value]);
  return html`<section class="fork-form" id="fork-form" aria-label=${t("fork.title")} ref=${form} onKeyDown=${leave}>
    <div class="segmented-small" role="group" aria-label=${t("fork.what")}>
      ${KINDS.map((name) => html`<button key=${name} id=${`fork-${name}`} aria-pressed=${now === name} onClick=${() => choose(name)}>${t(`fork.kind.${name}`)}</button>`)}
    </div>
    <${Fields} key=${now} />
    ${problem.value ? html`<p class="compare-problem" id="fork-problem">${problem.value}</p>` : null}
    <p class="hint fork-note" id="fork-note" aria-live="polite">${note(now)}</p>
  </section>`;
}

/** Escape closes the form; the button of the panel that opens it has the focus then. */
function leave(event) {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  formOpen.value = false;
  document.querySelector("#compare-fork").focus();
}

function choose(name) {
  kind.value = name;
  problem.value = null;
}

/** What will be made again, or how far that is. */
function note(now) {
  if (progress.value) return t("fork.progress", { done: grouped(progress.value.done), of: grouped(progress.value.of) });
  if (now === "config") return t("fork.note.config");
  const at = now === "token" ? viewIndex.value : viewIndex.value + 1;
  return t(`fork.note.${now === "token" ? "token" : "at"}`, { n: grouped(at) });
}

function Make({ change }) {
  return html`<button class="command primary" id="fork-make" disabled=${!change || !canFork.value || Boolean(progress.value)} onClick=${() => fork(change)}>
    <${Icon} name="fork" /><span>${t("fork.make")}</span>
  </button>`;
}

/** Unfinished requests after the record that one looks at: their ids. */
function requestsThere() {
  const there = state.value ? [...state.value.running, ...state.value.waiting] : [];
  return [...new Set(there.map((id) => state.value.sequences.get(id).request_id))];
}

function Pick({ id, label, choices, value, choose }) {
  return html`<label class="field"><span>${label}</span>
    <select id=${id} value=${value} onChange=${(event) => choose(event.currentTarget.value)}>
      ${choices.map(([key, text]) => html`<option key=${key} value=${key} selected=${String(key) === String(value)}>${text}</option>`)}
    </select></label>`;
}

function Number_({ id, label, value, choose, min, max, step = "any", placeholder = "" }) {
  return html`<label class="field"><span>${label}</span>
    <input id=${id} type="number" value=${value} min=${min} max=${max} step=${step} placeholder=${placeholder} onInput=${(event) => choose(event.currentTarget.value)} /></label>`;
}

/** Another token in the place of one that this record chose. */
function TokenFields() {
  const outputs = record.value?.outputs ?? [];
  const [seq, setSeq] = useState(null);
  const [token, setToken] = useState(null);
  const output = outputs.find((o) => o.seq_id === seq) ?? outputs[0];
  if (!output) return html`<p class="hint" id="fork-nothing">${t("fork.nothing.token")}</p>`;
  const others = output.top.filter((c) => c.token_id !== output.token_id);
  const taken = others.find((c) => c.token_id === token) ?? others[0];
  const text = (c) => labelText(loneLabel(c.token_bytes));
  return html`<div class="fork-fields">
    <${Pick} id="fork-seq" label=${t("fork.sequence")} value=${output.seq_id} choose=${(id) => setSeq(Number(id))} choices=${outputs.map((o) => [o.seq_id, `${t("sequence.name", { id: o.seq_id })}: “${text(o)}”`])} />
    <${Pick} id="fork-instead" label=${t("fork.instead")} value=${taken?.token_id} choose=${(id) => setToken(Number(id))} choices=${others.map((c) => [c.token_id, `“${text(c)}” (p ${Math.exp(c.logprob).toFixed(3)})`])} />
    <${Make} change=${taken && { kind: "token", seq_id: output.seq_id, token_id: taken.token_id, record: record.value.index }} />
  </div>`;
}

function RequestFields() {
  const [text, setText] = useState("");
  return html`<div class="fork-fields">
    <label class="field wide"><span>${t("fork.prompt")}</span><input id="fork-prompt" type="text" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /></label>
    <${Make} change=${text && { kind: "request", text, sampling: wantedSampling() }} />
  </div>`;
}

function AbortFields() {
  const there = requestsThere();
  const [asked, setAsked] = useState(null);
  const id = there.includes(asked) ? asked : there[0];
  if (!id) return html`<p class="hint" id="fork-nothing">${t("fork.nothing.request")}</p>`;
  return html`<div class="fork-fields">
    <${Pick} id="fork-request" label=${t("fork.request")} value=${id} choose=${setAsked} choices=${there.map((name) => [name, name])} />
    <${Make} change=${{ kind: "abort", request_id: id }} />
  </div>`;
}

const CHANGING = SAMPLING.filter((row) => row.may_change && ["integer", "number"].includes(row.kind));

/** Fields left empty stay what they are. */
function SamplingFields() {
  const there = requestsThere();
  const [asked, setAsked] = useState(null);
  const [fields, setFields] = useState({});
  const id = there.includes(asked) ? asked : there[0];
  if (!id) return html`<p class="hint" id="fork-nothing">${t("fork.nothing.request")}</p>`;
  const before = samplingOf(id);
  const sampling = Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== "")
      .map(([name, value]) => [name, Number(value)]),
  );
  return html`<div class="fork-fields">
    <${Pick} id="fork-request" label=${t("fork.request")} value=${id} choose=${setAsked} choices=${there.map((name) => [name, name])} />
    ${CHANGING.map((row) => html`<${NumberOf} key=${row.name} row=${row} fields=${fields} before=${before} set=${setFields} />`)}
    <${Make} change=${Object.keys(sampling).length ? { kind: "sampling", request_id: id, sampling } : null} />
  </div>`;
}

/** What a request samples with at the record that one looks at: as it was submitted, or adjusted since. */
function samplingOf(requestId) {
  const ops = log.value.records.slice(0, viewIndex.value + 1).flatMap((r) => r.ops ?? []);
  return (
    ops.findLast((op) => (op.type === "submit" || op.type === "adjust") && op.request_id === requestId)?.sampling ?? {}
  );
}

/** A number of the table of options; an empty field is what it was before. */
function NumberOf({ row, fields, before, set }) {
  const { name, kind, ge, gt, le } = row;
  return html`<${Number_}
    id=${`fork-${name.replaceAll("_", "-")}`}
    label=${optionLabel(name)}
    min=${ge ?? gt}
    max=${le}
    step=${kind === "integer" ? 1 : "any"}
    value=${fields[name] ?? ""}
    placeholder=${before[name] ?? "–"}
    choose=${(value) => set({ ...fields, [name]: value })}
  />`;
}

/** The options that lay the cache out. */
function ConfigFields() {
  const engine = log.value?.header.engine ?? {};
  const [fields, setFields] = useState({});
  const wantedOf = ({ name, kind }) =>
    kind === "integer" ? Number(fields[name] || engine[name]) : (fields[name] ?? engine[name]);
  const wanted = Object.fromEntries(LAYOUT.map((row) => [row.name, wantedOf(row)]));
  const config = Object.fromEntries(Object.entries(wanted).filter(([name, value]) => value !== engine[name]));
  const pick = ({ name, choices }) => html`<${Pick}
    key=${name}
    id=${`fork-${name}`}
    label=${optionLabel(name)}
    value=${wanted[name]}
    choose=${(value) => setFields({ ...fields, [name]: value })}
    choices=${choices.map((choice) => [choice, valueText(name, choice)])}
  />`;
  return html`<div class="fork-fields">
    ${LAYOUT.map((row) => (row.kind === "choice" ? pick(row) : html`<${NumberOf} key=${row.name} row=${row} fields=${fields} before=${engine} set=${setFields} />`))}
    <${Make} change=${Object.keys(config).length ? { kind: "config", config } : null} />
  </div>`;
}
