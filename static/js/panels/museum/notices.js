// The step in which each kind of evidence shows the fault: consistency check, log, decisions, keys, tokens.

import { entryText, objectionWords, sequenceName } from "../../i18n/operations.js";
import { sentences, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { differingDecisions, firstDecisionDifference, objections } from "./evidence.js";
import { contradictionWords } from "./facts.js";
import { names, player } from "./model.js";
import { figure, tokenWord } from "./words.js";

/** @import {Scene} from "./model.js" */

/** @param {{now: Scene}} props */
export function Notices({ now }) {
  return html`<section class="museum-notices">
    <h3 class="panel-title">${t("museum.notices")}</h3>
    <dl>${witnesses(now).map((one) => html`<${Notice} key=${one.name} ...${one} />`)}</dl>
  </section>`;
}

/**
 * A kind of evidence. `step` is the first step in which it shows the fault, or undefined.
 *
 * @typedef {{name: string, kind: "captured" | "derived", formula?: string, step?: number, text: string}} Witness
 */

/** @param {Scene} now @returns {Witness[]} */
export function witnesses({ logs, last, first: { log, keys, tokens } }) {
  const objection = objections(logs[1], last)[0];
  const difference = firstDecisionDifference(logs, last);
  const right = t(keys || tokens ? "museum.notices.books.right" : "museum.notices.right");
  const same = t("museum.notices.same");
  return [
    {
      name: "books",
      kind: "captured",
      formula: t("museum.notices.books.kind"),
      step: objection?.step,
      text: objection ? objectionWords(objection) : right,
    },
    { name: "log", kind: "derived", step: log?.step, text: log ? contradictionWords(log) : t("museum.notices.right") },
    {
      name: "decisions",
      kind: "derived",
      step: difference?.step,
      text: difference ? decisionText(logs, difference.step) : same,
    },
    {
      name: "keys",
      kind: "derived",
      step: keys?.step,
      text: keys
        ? t("museum.notices.keys.differ", { ...keys, name: sequenceName(keys.seq_id), most: figure(keys.most) })
        : same,
    },
    { name: "tokens", kind: "derived", step: tokens?.step, text: tokens ? tokenText(tokens) : same },
  ];
}

const INFORMATIVE = ["lookup", "copy", "preempt", "admit", "defer"]; // most informative operations first

/**
 * Text of the most informative decision of each lane that the other did not make.
 * @param {Scene["logs"]} logs @param {number} step
 */
function decisionText(logs, step) {
  const rank = (/** @type {import("../../core/operations.js").Entry} */ { type }) =>
    INFORMATIVE.includes(type) ? INFORMATIVE.indexOf(type) : INFORMATIVE.length;
  const texts = differingDecisions(logs, step).map((entries, i) => {
    const [first] = [...entries].sort((a, b) => rank(a) - rank(b));
    return first && t("museum.notices.decisions.lane", { lane: names()[i], text: entryText(first) });
  });
  return sentences(texts.filter(Boolean));
}

/** @param {NonNullable<Scene["first"]["tokens"]>} first */
function tokenText({ seq_id, place, tokens }) {
  const [healthy, faulty] = tokens.map(tokenWord);
  return t("museum.notices.tokens.differ", { name: sequenceName(seq_id), place: place + 1, healthy, faulty });
}

/** @param {Witness} props */
function Notice({ name, kind, formula = t(`museum.notices.${name}.formula`), step, text }) {
  return html`<div
    class=${step === undefined ? "museum-notice" : "museum-notice found"}
    data-notice=${name}
    data-found=${step ?? ""}
  >
    <dt>${t(`museum.notices.${name}`)} <${Fidelity} kind=${kind} formula=${formula} /></dt>
    <dd>
      ${
        step === undefined
          ? html`<span class="museum-quiet" aria-hidden="true">=</span>`
          : html`<button
            class="runs-go museum-go num"
            aria-label=${t("museum.notices.go", { step })}
            onClick=${() => player.look(step)}
          ><span aria-hidden="true">≠ </span>${t("runs.at_step", { step })}</button>`
      }
      <span class="museum-notice-text">${text}</span>
    </dd>
  </div>`;
}
