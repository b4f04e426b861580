// Two runs side by side: a run and its fork, or any two of this server. What is the same, where they part, what it
// cost.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { formOpen, goOnAt } from "../../control/fork.js";
import { html } from "../../kit/html.js";
import { Nothing, useRoom } from "../../runs/room.js";
import { connection } from "../../state/store.js";
import { t } from "../../tell/words.js";
import { Differences, FirstToken } from "./differences.js";
import { Tables } from "./figures.js";
import { ForkForm } from "./fork_form.js";
import { Head } from "./head.js";
import { Lanes } from "./lanes.js";
import { chosen, comparison, followComparison, problem } from "./model.js";

export function Panel() {
  useEffect(followComparison, []);
  const now = comparison.value;
  useRoom(Boolean(now));
  useEffect(() => {
    if (!now || goOnAt.peek() !== "futures") return;
    goOnAt.value = null;
    if (document.activeElement !== document.body) return;
    /** @type {HTMLElement | null} */
    const futures = document.querySelector(".compare-tokens, .compare-folded summary");
    futures?.focus({ preventScroll: true }); // what was pressed is gone
  }, [now]);
  if (connection.value === "replay") return html`<${Nothing} of="compare" text=${t("compare.replay")} />`;
  return html`<div class="runs compare" id="compare" data-ready=${Boolean(now)}>
    <${Head} />
    ${formOpen.value ? html`<${ForkForm} />` : null}
    ${
      now
        ? html`<${FirstToken} now=${now} /><${Lanes} now=${now} /><${Differences} now=${now} /><${Tables} now=${now} />`
        : html`<${Missing} />`
    }
  </div>`;
}

/** Why there is no comparison. */
function Missing() {
  if (problem.value) return html`<p class="compare-problem" id="compare-problem">${problem.value}</p>`;
  const text = t(chosen.value.b ? "compare.loading" : "compare.empty");
  return html`<p class="hint compare-empty" id="compare-empty">${text}</p>`;
}
