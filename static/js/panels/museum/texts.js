// What both runs chose, sequence by sequence, token under token; the first that differs is marked with its step.

import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Swatch } from "../../kit/swatch.js";
import { LaneNames, TokenColumns } from "../../runs/columns.js";
import { verdict } from "../../runs/words.js";
import { sequenceName } from "../../tell/operations.js";
import { t } from "../../tell/words.js";
import { chosenSeq, names } from "./model.js";

/** @typedef {import("./model.js").Scene} Scene */

/** @param {{now: Scene}} props */
export function Texts({ now }) {
  return html`<section class="museum-texts">
    <h3 class="panel-title">${t("museum.texts")} <${Fidelity} kind="captured" /></h3>
    ${now.seqs.map(
      (seq) => html`<${Text} key=${seq.seq_id} seq=${seq} step=${now.step} shown=${seq.seq_id === now.seq} />`,
    )}
  </section>`;
}

/** @param {{seq: Scene["seqs"][number], step: number, shown: boolean}} props */
function Text({ seq, step, shown }) {
  const { seq_id: id, lanes, difference } = seq;
  const name = sequenceName(id);
  const count = Math.max(...lanes.map((lane) => lane.length));
  const label = t("museum.texts.label", { name, count, verdict: verdict(names(), seq) });
  const show = () => (chosenSeq.value = id);
  return html`<div class="museum-text" data-seq=${id} data-differs=${difference?.place ?? ""}>
    <button class="museum-seq" aria-pressed=${shown} title=${t("museum.texts.show")} onClick=${show}>
      <${Swatch} id=${id} />${name}
    </button>
    <${LaneNames} names=${names()} /><${TokenColumns} aligned=${seq} label=${label} newest=${step} />
  </div>`;
}
