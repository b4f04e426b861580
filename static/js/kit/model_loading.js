// Loading progress of the server's model: the stages that the server reports, in order.

import { t } from "../i18n/words.js";
import { loadingModel } from "../state/store.js";
import { html } from "./html.js";

/**
 * Return the index of the model's current stage; -1 before the first.
 * @param {import("../core/wire.js").ModelStatus} now
 */
const stageIndex = ({ stage, stages }) => (stage ? stages.indexOf(stage) : -1);

/** Return a sentence with the current stage and its progress; "" if nothing is loading. */
export function loadingSentence() {
  const now = loadingModel.value;
  if (!now) return "";
  const at = Math.max(0, stageIndex(now));
  const what = t(`model.${now.stages[at]}`);
  return t("model.loading", { name: now.name, i: at + 1, n: now.stages.length, what });
}

/** List of finished, current and pending stages. */
export function ModelLoading() {
  const now = loadingModel.value;
  if (!now) return null;
  const at = stageIndex(now);
  return html`<span class="model-way" id="model-way" role="status">
    <b>${t("model.wait", { name: now.name })}</b>
    <ol>${now.stages.map((stage, i) => {
      const state = i < at ? "done" : i === at ? "now" : "later";
      return html`<li data-state=${state} aria-current=${i === at ? "step" : null}><i
        aria-hidden="true">${MARKS[state]}</i> ${t(`model.${stage}`)}</li>`;
    })}</ol>
  </span>`;
}

const MARKS = { done: "✓", now: "●", later: "○" };
