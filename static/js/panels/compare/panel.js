// Two runs side by side: a run and its fork, or any two of this server. Shows what is equal, the first difference and
// the cost.

import { useEffect, useLayoutEffect } from "../../../vendor/preact/hooks.js";
import { formOpen, goOnAt } from "../../control/fork.js";
import { t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { useEnlarged } from "../../runs/enlarged.js";
import { Differences, FirstToken } from "./differences.js";
import { Tables } from "./figures.js";
import { ForkForm } from "./fork_form.js";
import { Head } from "./head.js";
import { chosen, comparison, followComparison, problem } from "./model.js";
import { TokenRows } from "./token_rows.js";
import { verdictText } from "./verdict.js";

export function Panel() {
  useEffect(followComparison, []);
  const now = comparison.value;
  useEnlarged(Boolean(now));
  useLayoutEffect(() => {
    if (!now || goOnAt.peek() !== "futures") return;
    goOnAt.value = null;
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
        : html`<${Missing} />`
    }
  </div>`;
}

/** Verdict of the comparison in a sentence. @param {{now: import("./comparison.js").Answer}} props */
const Summary = ({ now }) =>
  html`<p class="compare-summary" id="compare-summary">
    ${verdictText(now)} <${Fidelity} kind="derived" formula=${t("compare.formula.verdict")} />
  </p>`;

/** Shown instead of a comparison, with the reason. */
function Missing() {
  if (problem.value) return html`<p class="compare-problem" id="compare-problem">${problem.value}</p>`;
  const text = t(chosen.value.b ? "compare.loading" : "compare.empty");
  return html`<p class="hint compare-empty" id="compare-empty">${text}</p>`;
}
