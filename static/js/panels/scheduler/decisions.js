// Decisions of the shown record as sentences with their numbers; each links to its target.

import { kindOf } from "../../core/operation_kinds.js";
import { operationsOf } from "../../core/operations.js";
import { entryText } from "../../i18n/operations.js";
import { grouped, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { log, record, select, selected } from "../../state/store.js";

/** @import {StepRecord} from "../../core/trace.js" */

export function Decisions() {
  const now = record.value;
  return html`<section class="decisions" aria-label=${t("ops.title")}>
    <header class="decisions-head">
      <h3 class="panel-title">${
        now
          ? t(now.kind === "step" ? "ops.step" : "ops.outside", { record: now.index + 1, step: now.step })
          : t("ops.title")
      } <${Fidelity} kind="captured"
          /></h3>
      ${now?.kind === "step" ? html`<span class="decisions-used num">${budgetText(now)}</span>` : null}
    </header>
    ${now ? html`<${DecisionList} now=${now} />` : html`<p class="hint">${t("ops.empty")}</p>`}
  </section>`;
}

/** @param {StepRecord} record */
function budgetText({ batch = [] }) {
  const { max_num_batched_tokens: budget, max_num_seqs: places } = log.value?.header.engine ?? {};
  const tokens = batch.reduce((sum, entry) => sum + entry.token_ids.length, 0);
  return t("ops.used", { tokens: grouped(tokens), budget: grouped(Number(budget)), seqs: batch.length, places });
}

/** @param {{now: StepRecord}} props */
function DecisionList({ now }) {
  const entries = log.value ? operationsOf(log.value, now.index) : [];
  const decided = entries.some((entry) => !kindOf(entry.type).routine);
  return html`<ul class="decision-list" tabindex="0" aria-label=${t("ops.title")}>
    ${decided ? null : html`<li class="hint">${t("ops.none")}</li>`}
    ${entries.map((entry) => html`<${Decision} key=${`${now.index}/${entry.at}`} entry=${entry} index=${now.index} />`)}
  </ul>`;
}

/** @param {{entry: ReturnType<typeof operationsOf>[number], index: number}} props */
function Decision({ entry, index }) {
  const chosen = selected.value?.record === index && selected.value?.op === entry.at;
  return html`<li>
    <button class=${`decision ${kindOf(entry.type).routine ? "routine" : (kindOf(entry.type).tone ?? "")}`}
      aria-pressed=${chosen} title=${t("ops.select")} onClick=${() => select({ record: index, op: entry.at })}>
      <span class="decision-seq">${entry.seq === null ? null : html`<${Swatch} id=${entry.seq} />`}</span>
      <span>${entryText(entry)}</span>
    </button>
  </li>`;
}
