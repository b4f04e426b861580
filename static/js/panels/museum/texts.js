// What both runs chose, sequence by sequence, token under token; the first that differs is marked with its step.

import { useEffect, useRef } from "../../../vendor/preact/hooks.js";
import { labelText, tokenLabels } from "../../core/labels.js";
import { html } from "../../kit/html.js";
import { Fidelity, Swatch } from "../../kit/parts.js";
import { t } from "../../tell/words.js";
import { chosenSeq, LANES } from "./model.js";
import { seqName, tokenWord } from "./words.js";

const MOST = 160; // columns kept in the document

export function Texts({ now }) {
  return html`<section class="museum-texts">
    <h3 class="panel-title">${t("museum.texts")} <${Fidelity} kind="captured" /></h3>
    ${now.seqs.map((seq) => html`<${Text} key=${seq.seq_id} seq=${seq} step=${now.step} shown=${seq.seq_id === now.seq} />`)}
  </section>`;
}

function Text({ seq, step, shown }) {
  const ref = useRef(null);
  const count = Math.max(...seq.lanes.map((lane) => lane.length));
  const place = seq.difference?.place ?? null;
  useEffect(() => {
    // the first difference stays in sight, else the newest is what one looks for
    const box = ref.current;
    const mark = box?.querySelector(".first");
    if (box) box.scrollLeft = mark ? Math.max(0, mark.offsetLeft - box.clientWidth / 2) : box.scrollWidth;
  }, [count, place]);
  const labels = seq.lanes.map((lane) => tokenLabels(lane.map((chosen) => chosen.bytes)).map(labelText));
  const name = seqName(seq.seq_id);
  const verdict = verdictOf(seq, count);
  return html`<div class="museum-text" data-seq=${seq.seq_id} data-differs=${place ?? ""}>
    <button class="museum-seq" aria-pressed=${shown} title=${t("museum.texts.show")} onClick=${() => (chosenSeq.value = seq.seq_id)}><${Swatch} id=${seq.seq_id} />${name}</button>
    <div class="museum-lane-names" aria-hidden="true">${LANES.map((lane) => html`<span>${t(`museum.${lane}`)}</span>`)}</div>
    <div class="race-columns museum-columns" ref=${ref} tabindex="0" data-arrows role="group" aria-label=${t("museum.texts.label", { name, count, verdict })}>
      ${Array.from({ length: Math.min(count, MOST) }, (_, k) => {
        const chosen = seq.lanes.map((lane) => lane[k]);
        const differs = place !== null && k >= place && chosen[0]?.token_id !== chosen[1]?.token_id;
        const kind = `${differs ? "differs" : ""} ${k === place ? "first" : ""}`;
        return html`<span class=${`race-column ${kind}`} key=${k}>
          ${labels.map((lane, i) => html`<span class=${chosen[i]?.step === step ? "generated newest" : "generated"}>${lane[k] || "\u00a0"}</span>`)}
          <span class="race-mark">${differs ? "≠" : chosen.every(Boolean) ? "=" : "\u00a0"}</span>
          ${k === place ? html`<span class="museum-mark-step num">${t("museum.notices.step", { step: seq.difference.step })}</span>` : null}
        </span>`;
      })}
    </div>
  </div>`;
}

function verdictOf(seq, count) {
  if (!count) return t("museum.texts.none");
  if (!seq.difference) return t("museum.texts.same");
  const { place, step } = seq.difference;
  const [healthy, faulty] = seq.lanes.map((lane) => tokenWord(lane[place]));
  return t("museum.texts.differ", { place: place + 1, step, healthy, faulty });
}
