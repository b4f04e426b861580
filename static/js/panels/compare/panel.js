// Two runs side by side: a run and its fork, or any two of this server, with the equal part, the first difference and
// the cost.

import { useEffect, useLayoutEffect } from "../../../vendor/preact/hooks.js";
import { batch } from "../../../vendor/signals/signals.js";
import { canFork, focusTarget, formOpen } from "../../control/fork.js";
import { t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { useEnlarged } from "../../runs/side_by_side.js";
import { settings } from "../../state/settings.js";
import { busy } from "../../state/store.js";
import { Differences, FirstToken } from "./differences.js";
import { Tables } from "./figures.js";
import { ForkForm } from "./fork_form.js";
import {
  canContinue,
  chosen,
  comparison,
  continueBoth,
  continuing,
  followComparison,
  onStage,
  problem,
  runs,
} from "./model.js";
import { runName, settingsThatDiffer } from "./names.js";
import { TokenRows } from "./token_rows.js";
import { verdictText } from "./verdict.js";

/** @import {Side} from "./comparison.js" */
/** @import {Run} from "./model.js" */

export function Panel() {
  useEffect(followComparison, []);
  const now = comparison.value;
  useEnlarged(Boolean(now));
  useLayoutEffect(() => {
    if (!now || focusTarget.peek() !== "futures") return;
    focusTarget.value = null;
    if (document.activeElement !== document.body) return;
    /** @type {HTMLElement | null} */
    const futures = document.querySelector(".compare-tokens, .compare-folded summary");
    futures?.focus({ preventScroll: true }); // the focused control has been removed
  }, [now]);
  return html`<div class="runs compare" id="compare" data-ready=${Boolean(now)}>
    <${Head} />
    ${formOpen.value ? html`<${ForkForm} />` : null}
    ${
      now
        ? html`<${Summary} now=${now} /><${FirstToken} now=${now} /><${TokenRows} now=${now} />
          <${Differences} now=${now} /><${Tables} now=${now} />`
        : html`<${Placeholder} />`
    }
  </div>`;
}

/** Verdict of the comparison in a sentence. @param {{now: import("./comparison.js").Answer}} props */
const Summary = ({ now }) =>
  html`<p class="compare-summary" id="compare-summary">
    ${verdictText(now)} <${Fidelity} kind="derived" formula=${t("compare.formula.verdict")} />
  </p>`;

/** Shown instead of a comparison, with the reason. */
function Placeholder() {
  if (problem.value) return html`<p class="compare-problem" id="compare-problem">${problem.value}</p>`;
  const text = t(chosen.value.b ? "compare.loading" : "compare.empty");
  return html`<p class="hint compare-empty" id="compare-empty">${text}</p>`;
}

const ALL = 10_000; // more steps than any run has left

function Head() {
  const label = t("compare.swap");
  const open = formOpen.value;
  return html`<div class="compare-head">
    <${RunSelect} side="a" /> <${RunSelect} side="b" />
    <button
      class="tool small"
      id="compare-swap"
      disabled=${!chosen.value.b}
      aria-label=${label}
      title=${label}
      onClick=${swap}
    >⇄</button>
    ${canContinue.value ? html`<${Continue} name="step" count=${1} /><${Continue} name="finish" count=${ALL} />` : null}
    <button
      class="command"
      id="compare-fork"
      aria-expanded=${open}
      disabled=${!canFork.value}
      title=${t("fork.hint")}
      onClick=${() => (formOpen.value = !open)}
    >
      <${Icon} name="fork" /><span>${t("fork.open")}</span>
    </button>
  </div>`;
}

/** Button that steps both runs. @param {{name: "step" | "finish", count: number}} props `count`: steps */
function Continue({ name, count }) {
  const text = t(`compare.${name}_both`);
  return html`<button
    class="command"
    id=${`compare-${name}`}
    disabled=${busy.value || !continuing.value.length}
    title=${text}
    onClick=${() => continueBoth(count)}
  ><${Icon} name=${name} /><span>${text}</span></button>`;
}

function swap() {
  const { a, b } = chosen.peek();
  batch(() => ((settings.run_a.value = b), (settings.run_b.value = a)));
}

/** @param {{side: Side}} props */
function RunSelect({ side }) {
  const id = chosen.value[side];
  const isListed = runs.value.some((run) => run.id === id);
  const choose = (/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => {
    const { a } = chosen.peek();
    if (side === "b" && !settings.run_a.peek()) settings.run_a.value = a;
    settings[`run_${side}`].value = event.currentTarget.value || null;
  };
  const name = side.toUpperCase();
  const label = t("compare.pick", { side: name });
  return html`<label class=${`compare-pick ${side}`}>
    <span class="compare-side">${name}</span>
    <select id=${`compare-${side}`} value=${id ?? ""} aria-label=${label} onChange=${choose}>
      ${side === "b" ? html`<option value="" selected=${!id}>${t("compare.choose")}</option>` : null}
      ${id && !isListed ? html`<option value=${id} selected=${true}>${id}</option>` : null}
      ${GROUPS.map((group) => html`<${RunOptions} key=${group} group=${group} id=${id} />`)}
    </select>
  </label>`;
}

/** @type {Run["group"][]} */
const GROUPS = ["own", "shipped", "other"];

/**
 * Options of one group of runs. Renders nothing if the group is empty.
 * @param {{group: Run["group"], id: string | null}} props `id`: of the selected run
 */
function RunOptions({ group, id }) {
  const groupRuns = runs.value.filter((run) => run.group === group);
  if (!groupRuns.length) return null;
  const differing = settingsThatDiffer(groupRuns, runs.value);
  return html`<optgroup label=${t(`compare.group.${group}`)}>
    ${groupRuns.map(
      (run) =>
        html`<option key=${run.id} value=${run.id} selected=${run.id === id}>${
          run.id === onStage.value ? t("compare.here") : ""
        }${runName(run, differing)}</option>`,
    )}
  </optgroup>`;
}
