// Facts at the shown step that point to the cause: consistency check, slots, lookups, preemptions, attention rows,
// keys.

import { kindOf } from "../../core/operation_kinds.js";
import { entryText, sequenceName } from "../../i18n/operations.js";
import { t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { hasStep } from "../../runs/steps.js";
import { tokensWord } from "../../runs/words.js";
import { aboveDiagonal, rotatedKey, shiftedKeys } from "./arrays.js";
import { contradictions, differingDecisions, lastWrites, sharedDecisions } from "./evidence.js";
import { LANES } from "./model.js";
import { figure, objectedAt } from "./words.js";

/** @import {Entry} from "../../core/operations.js" */
/** @import {Scene} from "./model.js" */

/**
 * `derived`: formula of the fact, if it is not in the log.
 * @typedef {{lane: "both" | "healthy" | "faulty", kind: string, text: string, fault?: boolean, derived?: string}} Fact
 */

/** @param {{now: Scene}} props */
export function Facts({ now }) {
  const facts = factsOf(now);
  return html`<section class="museum-facts">
    <h3 class="panel-title">${t("museum.facts")}</h3>
    <ul id="museum-facts" tabindex="0" aria-label=${t("museum.facts")}>
      ${facts.length ? null : html`<li class="hint">${t("museum.facts.none")}</li>`}
      ${facts.map((fact) => html`<${FactLine} ...${fact} />`)}
    </ul>
  </section>`;
}

/** @param {Fact} props */
function FactLine({ lane, kind, text, fault, derived }) {
  return html`<li class=${fault ? "museum-fact fault" : "museum-fact"} data-fact=${kind} data-lane=${lane}>
    <span class="museum-fact-lane">
      ${fault ? html`<span aria-hidden="true">⚠\uFE0E </span>` : null}${t(`museum.${lane}`)}
    </span>
    <span>${text} <${Fidelity} kind=${derived ? "derived" : "captured"} formula=${derived ?? ""} /></span>
  </li>`;
}

/** Return the facts in order of importance. @param {Scene} now @returns {Fact[]} */
export function factsOf({ logs, step, seq }) {
  if (step === 0) return [];
  const [, faulty] = logs;
  const objection = objectedAt(faulty, step);
  const formula = t("museum.notices.log.formula");
  return [
    ...(objection ? [faultFact("books", t("museum.fact.books", { text: objection }))] : []),
    ...contradictions(faulty, step).map((one) => faultFact(one.kind, contradictionWords(one), formula)),
    ...(seq === null ? [] : arrayFacts(logs, step, seq)),
    ...sharedFacts(logs, step),
    ...differingDecisions(logs, step).flatMap((entries, i) => entries.map((entry) => decision(LANES[i], entry))),
    ...writeFacts(logs, step),
  ];
}

/**
 * A fact of the faulty run that is impossible in a correct run.
 * @param {string} kind @param {string} text
 * @param {string} [derived]
 * @returns {Fact}
 */
const faultFact = (kind, text, derived) => ({ lane: "faulty", kind, text, fault: true, derived });

/**
 * Return the decisions of both runs whose kind may cause a fault. If their texts differ, each run has its own fact.
 * @param {Scene["logs"]} logs @param {number} step
 * @returns {Fact[]}
 */
function sharedFacts(logs, step) {
  return sharedDecisions(logs, step)
    .filter(([{ type }]) => kindOf(type).cause)
    .flatMap((pair) => {
      const [healthy, faulty] = pair.map((entry, i) => decision(LANES[i], entry));
      return healthy.text === faulty.text ? [{ ...healthy, lane: "both" }] : [healthy, faulty];
    });
}

/** @param {import("./model.js").LaneName} lane @param {Entry} entry @returns {Fact} */
const decision = (lane, entry) => ({ lane, kind: entry.type, text: entryText(entry) });

/** @param {Scene["logs"]} logs @param {number} step @param {number} seq @returns {Fact[]} */
function arrayFacts(logs, step, seq) {
  const [, faulty] = logs;
  const found = [];
  const above = hasStep(faulty, step) ? aboveDiagonal(faulty, step) : null;
  if (above) found.push(faultFact("above", t("museum.fact.above", { ...above, weight: figure(above.weight) })));
  const shifted = hasStep(faulty, step) ? shiftedKeys(faulty, step, seq) : null;
  if (shifted) {
    const shift = shifted.by < 0 ? `j − ${-shifted.by}` : `j + ${shifted.by}`;
    const values = { ...shifted, shift, fits: figure(shifted.fits), unmoved: figure(shifted.unmoved) };
    found.push(faultFact("moved", t("museum.fact.moved", values), t("museum.fact.moved.formula", { shift })));
  }
  const rotated = rotatedKey(logs, step, seq);
  if (rotated) {
    const { position, length, cosine } = rotated;
    const values = { name: sequenceName(seq), position, length: figure(length), cosine: figure(cosine) };
    found.push(faultFact("turned", t("museum.fact.turned", values), t("museum.fact.turned.formula")));
  }
  return found;
}

/**
 * Return the slots of the newest K and V by the block tables, as one fact if both runs agree.
 * @param {Scene["logs"]} logs @param {number} step
 * @returns {Fact[]}
 */
function writeFacts(logs, step) {
  const [healthy, faulty] = logs.map((log) =>
    lastWrites(log, step).map((write) => t("museum.fact.write", { ...write, name: sequenceName(write.seq_id) })),
  );
  const both = healthy.filter((text) => faulty.includes(text));
  const entries = (/** @type {Fact["lane"]} */ lane, /** @type {string[]} */ texts) =>
    texts
      .filter((text) => lane === "both" || !both.includes(text))
      .map((text) => /** @type {Fact} */ ({ lane, kind: "write", text }));
  return [...entries("both", both), ...entries("healthy", healthy), ...entries("faulty", faulty)];
}

/** Text of a contradiction. @param {import("./evidence.js").Contradiction} one */
export function contradictionWords(one) {
  switch (one.kind) {
    case "shared_write":
      return t("museum.fact.shared_write", { ...one, names: one.seqs.map(sequenceName).join(t("museum.say.comma")) });
    case "forgotten":
      return t("museum.fact.forgotten", { ...one, name: sequenceName(one.seq_id), lost: one.known - one.computed });
    case "foreign":
      return t("museum.fact.foreign", {
        name: sequenceName(one.seq_id),
        n: one.blocks.length,
        blocks: one.blocks.join(", "),
        there: tokensWord(one.there),
        own: tokensWord(one.own),
      });
  }
}
