// What the two logs say at the step shown that tells the cause: the check of the books, slots, lookups, preemptions, rows, keys.

import { kindOf } from "../../core/operation_kinds.js";
import { html } from "../../kit/html.js";
import { Fidelity } from "../../kit/parts.js";
import { contradictions, differingDecisions, lastWrites, sharedDecisions, tookStep } from "../../runs/fault.js";
import { aboveDiagonal, movedKeys, turnedKey } from "../../runs/fault_arrays.js";
import { tellEntry } from "../../tell/operations.js";
import { t } from "../../tell/words.js";
import { LANES } from "./model.js";
import { figure, objectedAt, seqName, tokensWord } from "./words.js";

export function Facts({ now }) {
  const facts = factsOf(now);
  return html`<section class="museum-facts">
    <h3 class="panel-title">${t("museum.facts")}</h3>
    <ul id="museum-facts" tabindex="0" aria-label=${t("museum.facts")}>
      ${facts.length ? null : html`<li class="hint">${t("museum.facts.none")}</li>`}
      ${facts.map(
        ({
          lane,
          kind,
          text,
          fault,
          derived,
        }) => html`<li class=${fault ? "museum-fact fault" : "museum-fact"} data-fact=${kind} data-lane=${lane}>
          <span class="museum-fact-lane">${fault ? html`<span aria-hidden="true">⚠\uFE0E </span>` : null}${t(`museum.${lane}`)}</span>
          <span>${text} <${Fidelity} kind=${derived ? "derived" : "captured"} formula=${derived ?? ""} /></span>
        </li>`,
      )}
    </ul>
  </section>`;
}

/** Facts in the order of importance: [{lane, kind, text, fault, derived: formula or undefined}]. */
function factsOf({ logs, step, seq }) {
  const [, faulty] = logs;
  if (step === 0) return [];
  const found = [];
  const books = objectedAt(faulty, step);
  if (books) found.push({ lane: "faulty", kind: "books", text: t("museum.fact.books", { text: books }), fault: true });
  for (const one of contradictions(faulty, step))
    found.push({
      lane: "faulty",
      kind: one.kind,
      text: contradictionWords(one),
      fault: true,
      derived: t("museum.notices.log.formula"),
    });
  found.push(...arrayFacts(logs, step, seq));
  found.push(...sharedFacts(logs, step));
  differingDecisions(logs, step).forEach((entries, i) =>
    found.push(...entries.map((entry) => decision(LANES[i], entry))),
  );
  return [...found, ...writeFacts(logs, step)];
}

/** Decisions of both runs that faults hide behind; what came of them may differ, and is then told of each. */
function sharedFacts(logs, step) {
  return sharedDecisions(logs, step)
    .filter(([{ type }]) => kindOf(type).cause)
    .flatMap((pair) => {
      const [healthy, faulty] = pair.map((entry, i) => decision(LANES[i], entry));
      return healthy.text === faulty.text ? [{ ...healthy, lane: "both" }] : [healthy, faulty];
    });
}

const decision = (lane, entry) => ({ lane, kind: entry.type, text: tellEntry(entry) });

function arrayFacts(logs, step, seq) {
  if (seq === null) return [];
  const [, faulty] = logs;
  const found = [];
  const above = tookStep(faulty, step) ? aboveDiagonal(faulty, step) : null;
  if (above)
    found.push({
      lane: "faulty",
      kind: "above",
      text: t("museum.fact.above", { ...above, weight: figure(above.weight) }),
      fault: true,
    });
  const moved = tookStep(faulty, step) ? movedKeys(faulty, step, seq) : null;
  if (moved) {
    const shift = moved.by < 0 ? `j − ${-moved.by}` : `j + ${moved.by}`;
    const values = { ...moved, shift, fits: figure(moved.fits), unmoved: figure(moved.unmoved) };
    found.push({
      lane: "faulty",
      kind: "moved",
      text: t("museum.fact.moved", values),
      fault: true,
      derived: t("museum.fact.moved.formula", { shift }),
    });
  }
  const turned = turnedKey(logs, step, seq);
  if (turned) {
    const values = {
      name: seqName(seq),
      position: turned.position,
      length: figure(turned.length),
      cosine: figure(turned.cosine),
    };
    found.push({
      lane: "faulty",
      kind: "turned",
      text: t("museum.fact.turned", values),
      fault: true,
      derived: t("museum.fact.turned.formula"),
    });
  }
  return found;
}

/** Where the books put the newest K and V: said once where both runs agree. */
function writeFacts(logs, step) {
  const [healthy, faulty] = logs.map((log) =>
    lastWrites(log, step).map((write) => t("museum.fact.write", { ...write, name: seqName(write.seq_id) })),
  );
  const both = healthy.filter((text) => faulty.includes(text));
  const said = (lane, texts) =>
    texts.filter((text) => lane === "both" || !both.includes(text)).map((text) => ({ lane, kind: "write", text }));
  return [...said("both", both), ...said("healthy", healthy), ...said("faulty", faulty)];
}

/** A contradiction of runs/fault.js as a sentence. */
export function contradictionWords(one) {
  if (one.kind === "shared_write")
    return t("museum.fact.shared_write", { ...one, names: one.seqs.map(seqName).join(t("museum.say.comma")) });
  if (one.kind === "forgotten")
    return t("museum.fact.forgotten", { ...one, name: seqName(one.seq_id), lost: one.known - one.computed });
  return t("museum.fact.foreign", {
    name: seqName(one.seq_id),
    n: one.blocks.length,
    blocks: one.blocks.join(", "),
    there: tokensWord(one.there),
    own: tokensWord(one.own),
  });
}
