// What the model could have said: the most probable tokens of the step's output.

import { langOf, probabilityText, t } from "../i18n/index.js";
import { stage } from "../model/store.js";
import { loneLabel } from "../trace/labels.js";
import { html } from "./html.js";
import { Fidelity } from "./words.js";

export function Candidates() {
  const output = stage.value?.output;
  return html`<section class="panel candidates">
    <h3 class="panel-title">${t("candidates.title")} <${Fidelity} kind="captured" /></h3>
    ${output ? html`<${List} output=${output} />` : html`<p class="hint">${t("candidates.empty")}</p>`}
  </section>`;
}

function List({ output }) {
  const listed = output.top.some((c) => c.token_id === output.token_id)
    ? output.top
    : [...output.top.slice(0, -1), { token_id: output.token_id, token_bytes: output.token_bytes, logprob: output.logprob }];
  const rest = Math.max(0, 1 - listed.reduce((sum, c) => sum + Math.exp(c.logprob), 0));
  return html`<ol class="candidate-list">
    ${listed.map((c) => html`<${Row} label=${candidateText(c.token_bytes)} p=${Math.exp(c.logprob)} chosen=${c.token_id === output.token_id} />`)}
    <${Row} label=${t("candidates.rest")} p=${rest} rest=${true} />
  </ol>`;
}

function Row({ label, p, chosen = false, rest = false }) {
  return html`<li class=${`candidate${chosen ? " chosen" : ""}${rest ? " rest" : ""}`}>
    <span class="candidate-token" lang=${langOf(label)}>${label}${chosen ? html`<span class="visually-hidden"> (${t("candidates.chosen")})</span>` : null}</span>
    <span class="candidate-bar" aria-hidden="true"><i style=${{ width: `${Math.max(0.5, p * 100)}%` }}></i></span>
    <span class="num">${probabilityText(p)}</span>
  </li>`;
}

function candidateText(bytes) {
  const label = loneLabel(bytes);
  return label.of ? `⟨${label.hex}⟩` : label.text;
}
