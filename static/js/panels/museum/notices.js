// Who notices the fault, and in which step: the check of the books, the log by itself, decisions, keys, tokens.

import { html } from "../../kit/html.js";
import { Fidelity } from "../../kit/parts.js";
import { differingDecisions, firstDecisionDifference, objections } from "../../runs/fault.js";
import { objectionWords } from "../../tell/objections.js";
import { tellEntry } from "../../tell/operations.js";
import { sentences, t } from "../../tell/words.js";
import { contradictionWords } from "./facts.js";
import { LANES, lanes } from "./model.js";
import { figure, seqName, tokenWord } from "./words.js";

export function Notices({ now }) {
  const { logs, last, first } = now;
  const objected = objections(logs[1], last)[0];
  const decided = firstDecisionDifference(logs, last);
  const { keys, tokens } = first;
  return html`<section class="museum-notices">
    <h3 class="panel-title">${t("museum.notices")}</h3>
    <dl>
      <${Notice} name="books" kind="captured" formula=${t("museum.notices.books.kind")} step=${objected?.step} text=${objected ? objectionWords(objected) : t(keys || tokens ? "museum.notices.books.right" : "museum.notices.right")} />
      <${Notice} name="log" kind="derived" step=${first.log?.step} text=${first.log ? contradictionWords(first.log) : t("museum.notices.right")} />
      <${Notice} name="decisions" kind="derived" step=${decided?.step} text=${decided ? decisionText(logs, decided.step) : t("museum.notices.same")} />
      <${Notice}
        name="keys"
        kind="derived"
        step=${keys?.step}
        text=${keys ? t("museum.notices.keys.differ", { ...keys, name: seqName(keys.seq_id), most: figure(keys.most) }) : t("museum.notices.same")}
      />
      <${Notice} name="tokens" kind="derived" step=${tokens?.step} text=${tokens ? tokenText(tokens) : t("museum.notices.same")} />
    </dl>
  </section>`;
}

const TELLING = ["lookup", "copy", "preempt", "admit", "defer"]; // what says most of why the others followed

/** What each lane decided that the other did not, the most telling of it. */
function decisionText(logs, step) {
  const rank = ({ type }) => (TELLING.includes(type) ? TELLING.indexOf(type) : TELLING.length);
  const told = differingDecisions(logs, step).map((entries, i) => {
    const [first] = [...entries].sort((a, b) => rank(a) - rank(b));
    return first && t("museum.notices.decisions.lane", { lane: t(`museum.${LANES[i]}`), text: tellEntry(first) });
  });
  return sentences(told.filter(Boolean));
}

function tokenText({ seq_id, place, chosen: [healthy, faulty] }) {
  return t("museum.notices.tokens.differ", {
    name: seqName(seq_id),
    place: place + 1,
    healthy: tokenWord(healthy),
    faulty: tokenWord(faulty),
  });
}

/** One witness: `step` is when it noticed, undefined while it has not. */
function Notice({ name, kind, formula, step, text }) {
  const found = step !== undefined;
  return html`<div class=${found ? "museum-notice found" : "museum-notice"} data-notice=${name} data-found=${step ?? ""}>
    <dt>${t(`museum.notices.${name}`)} <${Fidelity} kind=${kind} formula=${formula ?? t(`museum.notices.${name}.formula`)} /></dt>
    <dd>
      ${
        found
          ? html`<button class="museum-go num" aria-label=${t("museum.notices.go", { step })} onClick=${() => lanes.look(step)}><span aria-hidden="true">≠ </span>${t("museum.notices.step", { step })}</button>`
          : html`<span class="museum-quiet" aria-hidden="true">=</span>`
      }
      <span class="museum-notice-text">${text}</span>
    </dd>
  </div>`;
}
