// Two runs side by side: a run and its fork, or any two of this server. What is the same, where they part, what it cost.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { batch } from "../../../vendor/signals/signals.js";
import { canFork, formOpen, goOnAt } from "../../control/fork.js";
import { html } from "../../kit/html.js";
import { Fidelity, Icon } from "../../kit/parts.js";
import { labelsOf } from "../../runs/comparison.js";
import { settings } from "../../state/settings.js";
import { busy, connection } from "../../state/store.js";
import { valueText } from "../../tell/options.js";
import { grouped, inLanguage, t } from "../../tell/words.js";
import { ForkForm } from "./fork_form.js";
import { Lanes } from "./lanes.js";
import { canContinue, chosen, comparison, continueBoth, followComparison, look, problem, runs } from "./model.js";
import { Tables } from "./tables.js";
import { opDifference } from "./words.js";

export function Panel() {
  useEffect(followComparison, []);
  const now = comparison.value;
  useRoom(Boolean(now));
  useEffect(() => {
    if (!now || goOnAt.peek() !== "futures") return;
    goOnAt.value = null;
    if (document.activeElement === document.body)
      document.querySelector(".compare-tokens, .compare-folded summary")?.focus({ preventScroll: true }); // what was pressed is gone
  }, [now]);
  if (connection.value === "replay") return html`<p class="hint" id="compare-nothing">${t("compare.replay")}</p>`;
  return html`<div class="compare" id="compare" data-ready=${Boolean(now)}>
    <${Head} />
    ${formOpen.value ? html`<${ForkForm} />` : null}
    ${now ? html`<${FirstToken} now=${now} /><${Lanes} now=${now} /><${Differences} now=${now} /><${Tables} now=${now} />` : html`<${Nothing} />`}
  </div>`;
}

/** While two runs are compared, the panel takes the room that lanes and tables need. */
function useRoom(wanted) {
  useEffect(() => {
    if (!wanted) return undefined;
    const before = settings.detail_large.peek();
    settings.detail_large.value = true;
    return () => (settings.detail_large.value = before);
  }, [wanted]);
}

function Head() {
  return html`<div class="compare-head">
    <${Pick} side="a" /> <${Pick} side="b" />
    <button class="tool small" id="compare-swap" disabled=${!chosen.value.b} aria-label=${t("compare.swap")} title=${t("compare.swap")} onClick=${swap}>⇄</button>
    ${
      canContinue.value
        ? html`<button class="command" id="compare-step" disabled=${busy.value} title=${t("compare.step_both")} onClick=${() => continueBoth(1)}><${Icon} name="step" /><span>${t("compare.step_both")}</span></button>
          <button class="command" id="compare-finish" disabled=${busy.value} title=${t("compare.finish_both")} onClick=${() => continueBoth(ALL)}><${Icon} name="finish" /><span>${t("compare.finish_both")}</span></button>`
        : null
    }
    <button class="command" id="compare-fork" aria-expanded=${formOpen.value} disabled=${!canFork.value} title=${t("fork.hint")} onClick=${() => (formOpen.value = !formOpen.value)}>
      <${Icon} name="fork" /><span>${t("fork.open")}</span>
    </button>
  </div>`;
}

const ALL = 10_000; // steps: more than any run here has left

function swap() {
  const { a, b } = chosen.peek();
  batch(() => ((settings.run_a.value = b), (settings.run_b.value = a)));
}

function Pick({ side }) {
  const id = chosen.value[side];
  const known = runs.value.some((run) => run.id === id);
  const choose = (event) => {
    const { a } = chosen.peek();
    if (side === "b" && !settings.run_a.peek()) settings.run_a.value = a;
    settings[`run_${side}`].value = event.currentTarget.value || null;
  };
  return html`<label class=${`compare-pick ${side}`}>
    <span class="compare-side">${side.toUpperCase()}</span>
    <select id=${`compare-${side}`} value=${id ?? ""} aria-label=${t("compare.pick", { side: side.toUpperCase() })} onChange=${choose}>
      ${side === "b" ? html`<option value="" selected=${!id}>${t("compare.choose")}</option>` : null}
      ${id && !known ? html`<option value=${id} selected=${true}>${id}</option>` : null}
      ${["theater", "recording"].map((kind) => {
        const there = runs.value.filter((run) => run.kind === kind);
        return there.length
          ? html`<optgroup label=${t(`compare.kind.${kind}`)}>${there.map((run) => html`<option key=${run.id} value=${run.id} selected=${run.id === id}>${runName(run)}</option>`)}</optgroup>`
          : null;
      })}
    </select>
  </label>`;
}

/** What a run is called: its own name, or what it was made with; the one on stage says so. */
function runName(run) {
  const title = run.title ? inLanguage(run.title) : run.name;
  const { strategy, block_size: size, num_blocks: blocks } = run.config;
  const what =
    title ||
    (run.fork
      ? t("compare.fork_of", { at: run.fork.at })
      : t("compare.run", { strategy: valueText("strategy", strategy), size, blocks }));
  const here = run.id === settings.theater.value ? t("compare.here") : "";
  return t("compare.option", { what, here, n: grouped(run.records) });
}

function Nothing() {
  if (problem.value) return html`<p class="compare-problem" id="compare-problem">${problem.value}</p>`;
  return html`<p class="hint compare-empty" id="compare-empty">${t(chosen.value.b ? "compare.loading" : "compare.empty")}</p>`;
}

/** Where the two part, before all lanes: however many these are, it is in sight. */
function FirstToken({ now }) {
  const first = now.first_token;
  const text = (token) => (token ? `“${labelsOf([token])[0]}”` : t("compare.ended"));
  const equal = now.sequences.reduce((sum, pair) => sum + pair.equal_tokens, 0);
  const shown = first && { request: first.request_id, position: first.position, a: text(first.a), b: text(first.b) };
  return html`<div class="compare-token-first">
    <p class="compare-verdict" id="compare-token">
      ${first ? t("compare.first_token", shown) : t("compare.no_token", { n: grouped(equal) })} <${Fidelity} kind="captured" />
    </p>
    ${first ? html`<p class="compare-ways"><${Way} side="a" record=${first.a?.record} /> <${Way} side="b" record=${first.b?.record} /></p>` : null}
  </div>`;
}

/** The first operation that is not the same, and what else one must know. */
function Differences({ now }) {
  const op = opDifference(now);
  return html`<div class="compare-differences">
    <div>
      <p class="compare-verdict" id="compare-op">${op ? op.where : t("compare.no_op")} <${Fidelity} kind="captured" /></p>
      ${
        op
          ? html`<dl class="compare-ops">
            ${["a", "b"].map((side) => html`<dt class=${side}>${side.toUpperCase()}</dt><dd>${op[side]} ${now.first_op[`kind_${side}`] === null ? null : html`<${Way} side=${side} record=${now.first_op.record} />`}</dd>`)}
          </dl>`
          : null
      }
    </div>
    <${Notes} now=${now} />
  </div>`;
}

/** A button to a record of one of the runs. */
function Way({ side, record }) {
  if (record === undefined) return null;
  return html`<button class="compare-way num" data-side=${side} onClick=${() => look(side, record)} title=${t("compare.look", { side: side.toUpperCase() })}>
    ${t("compare.record", { side: side.toUpperCase(), n: grouped(record + 1) })}
  </button>`;
}

/** What else one must know: settings that differ, another model or machine, inputs that were left out. */
function Notes({ now }) {
  const value = (x) => (x === null ? "–" : x === true ? t("compare.on") : x === false ? t("compare.off") : String(x));
  const lines = now.settings.map(({ name, a, b }) => t("compare.setting", { name, a: value(a), b: value(b) }));
  if (!now.same_model) lines.push(t("compare.other_model"));
  if (!now.same_machine) lines.push(t("compare.other_machine"));
  for (const { status } of now.runs)
    lines.push(...(status.fork?.left_out ?? []), ...(status.fork && status.error ? [status.error] : []));
  return lines.length
    ? html`<ul class="compare-notes" id="compare-notes">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`
    : null;
}
