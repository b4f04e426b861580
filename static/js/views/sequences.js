// Every sequence of the run at the record shown: its text, its state, its latencies.

import { langOf, secondsText, t } from "../i18n/index.js";
import { abort } from "../model/actions.js";
import { settings } from "../model/settings.js";
import { connection, log, shownSeq, state, viewIndex } from "../model/store.js";
import { joinText } from "../trace/labels.js";
import { latencies } from "../trace/metrics.js";
import { html } from "./html.js";
import { Icon, Swatch, Term } from "./words.js";

export function Sequences() {
  const sequences = state.value ? [...state.value.sequences.values()] : [];
  return html`<div class="group sequences">
    <h3 class="group-title">${t("score.sequences")}</h3>
    ${sequences.length === 0
      ? html`<p class="hint">${t("score.no_sequences")}</p>`
      : html`<ul class="sequence-list">
          ${sequences.map((seq) => html`<${SequenceItem} key=${seq.seq_id} seq=${seq} />`)}
        </ul>`}
  </div>`;
}

function SequenceItem({ seq }) {
  const name = t("sequence.name", { id: seq.seq_id });
  const shown = shownSeq.value === seq.seq_id;
  const prompt = joinText(seq.token_bytes.slice(0, seq.num_prompt_tokens));
  const output = joinText(seq.token_bytes.slice(seq.num_prompt_tokens));
  const times = latencies(log.value, seq.seq_id, viewIndex.value);
  const alive = seq.status !== "finished" && connection.value !== "replay";
  return html`<li class=${shown ? "sequence shown" : "sequence"}>
    <button class="sequence-main" aria-pressed=${shown} aria-description=${t("sequence.show", { name })} onClick=${() => (settings.seq.value = seq.seq_id)}>
      <span class="sequence-head">
        <${Swatch} id=${seq.seq_id} /> <b>${name}</b>
        <span class=${`status ${seq.status}`}>${t(`status.${seq.status}`)}</span>
        <span class="num">${seq.num_prompt_tokens} + ${seq.token_ids.length - seq.num_prompt_tokens}</span>
      </span>
      <span class="sequence-text" lang=${langOf(prompt)}><span class="prompt">${tail(prompt, output ? 28 : 60)}</span><span class="generated">${tail(output, 40)}</span></span>
    </button>
    <span class="sequence-times num">
      <${Term} id="ttft">TTFT<//> ${secondsText(times.ttft)}<span class="dot">·</span><${Term} id="tpot">TPOT<//> ${secondsText(times.tpot)}
    </span>
    ${alive
      ? html`<button class="tool small" aria-label=${t("score.abort", { name })} title=${t("score.abort", { name })} onClick=${() => abort(seq.request_id)}>
          <${Icon} name="close" />
        </button>`
      : null}
  </li>`;
}

function tail(text, length) {
  const characters = Array.from(text);
  return characters.length > length ? `…${characters.slice(-length).join("")}` : text;
}
