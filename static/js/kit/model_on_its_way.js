// What the server does until its model is there: each thing in its order, as the server says it.

import { onItsWay } from "../state/store.js";
import { t } from "../tell/words.js";
import { html } from "./html.js";

/** Which of its stages it is at; -1 before the first. @param {import("../core/wire.js").ModelStatus} now */
const placeOf = ({ stage, stages }) => (stage ? stages.indexOf(stage) : -1);

/** In a sentence: what is done now, and how much of all that is; "" when nothing is on its way. */
export function loadingSentence() {
  const now = onItsWay.value;
  if (!now) return "";
  const at = Math.max(0, placeOf(now));
  const what = t(`model.${now.stages[at]}`);
  return t("model.loading", { name: now.name, i: at + 1, n: now.stages.length, what });
}

/** As a list: what is done, what is done now, what comes. */
export function ModelOnItsWay() {
  const now = onItsWay.value;
  if (!now) return null;
  const at = placeOf(now);
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
