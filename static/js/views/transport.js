// The bottom region: buttons, the scrubber with its event marks, the sentence.

import { secondsText, t } from "../i18n/index.js";
import * as actions from "../model/actions.js";
import { settings } from "../model/settings.js";
import { backToLive, busy, connection, following, goTo, numRecords, record, shownSeq, viewIndex, log } from "../model/store.js";
import { stepSeconds } from "../trace/metrics.js";
import { sentencesOf } from "../trace/sentence.js";
import { html } from "./html.js";
import { Scrubber } from "./scrubber.js";
import { Fidelity, Icon, Term } from "./words.js";

export function Transport() {
  return html`<section class="transport" aria-label=${t("transport.label")}>
    <div class="transport-row">
      <${History} />
      ${connection.value === "replay" ? null : html`<${Commands} />`}
      <${Scrubber} />
      <${Position} />
    </div>
    <${Sentence} />
  </section>`;
}

function History() {
  const index = viewIndex.value;
  const end = following.value;
  const button = (id, icon, label, action, disabled) =>
    html`<button class="tool" id=${id} aria-label=${label} title=${label} onClick=${action} disabled=${disabled}><${Icon} name=${icon} /></button>`;
  return html`<div class="history" role="group">
    ${button("btn-first", "first", t("transport.first"), () => goTo(-1), index < 0)}
    ${button("btn-back", "back", t("transport.back"), () => goTo(index - 1), index < 0)}
    ${button("btn-forward", "forward", t("transport.forward"), () => goTo(index + 1), end)}
    ${button("btn-last", "last", t("transport.last"), backToLive, end)}
  </div>`;
}

function Commands() {
  const off = connection.value !== "live";
  const running = actions.running();
  const waiting = off || busy.value;
  return html`<div class="commands" role="group">
    <button class="command" id="btn-prefill" disabled=${off || running} aria-busy=${waiting} onClick=${actions.prefill}>
      <${Icon} name="prefill" /><span>${t("transport.prefill")}</span>
    </button>
    <button class="command primary" id="btn-step" disabled=${off || running} onClick=${actions.step}><${Icon} name="step" /><span>${t("transport.step")}</span></button>
    <span class="swap">
      <button class="command" id="btn-run" data-shown=${!running} disabled=${off || running} onClick=${actions.run}>
        <${Icon} name="run" /><span>${t("transport.run")}</span>
      </button>
      <button class="command" id="btn-pause" data-shown=${running} disabled=${off || !running} onClick=${actions.pause}>
        <${Icon} name="pause" /><span>${t("transport.pause")}</span>
      </button>
    </span>
    <button class="command" id="btn-reset" disabled=${off} onClick=${actions.reset}><${Icon} name="reset" /><span>${t("transport.reset")}</span></button>
    <label class="speed">
      <span class="visually-hidden">${t("transport.speed")}</span>
      <select id="speed" value=${settings.speed.value} onChange=${(event) => (settings.speed.value = Number(event.currentTarget.value))}>
        ${actions.SPEEDS.map(
          (n) => html`<option value=${n} selected=${n === settings.speed.value}>
            ${n === 0 ? t("transport.speed_max") : t("transport.speed_value", { n })}
          </option>`,
        )}
      </select>
    </label>
  </div>`;
}

function Position() {
  const index = viewIndex.value;
  return html`<div class="position">
    <span class="num" id="position">${index < 0 ? t("transport.before") : t("transport.position", { i: index + 1, n: numRecords.value })}</span>
    <span class="position-second num">
      ${following.value || connection.value === "replay"
        ? html`<span>
            ${t("transport.step_count", { n: record.value?.step ?? 0 })}
            ${record.value?.kind === "step"
              ? html` · <b>${secondsText(stepSeconds(record.value))}</b> <${Fidelity} kind="derived" formula="schedule + prepare + forward + sample" />`
              : null}
          </span>`
        : html`<button class="link" id="btn-live" onClick=${backToLive}>${t("transport.live")}</button>`}
    </span>
  </div>`;
}

/** What the record did, in words; announced to screen readers. */
function Sentence() {
  const name = (id) => t("sequence.name", { id });
  const sentences = log.value ? sentencesOf(log.value, viewIndex.value, shownSeq.value) : [];
  const text = sentences
    .map(([key, values]) => t(key, { ...values, ...(values.name !== undefined && { name: name(values.name) }), ...(values.for !== undefined && { for: name(values.for) }) }))
    .join(settings.lang.value === "zh" ? "" : " ");
  const phase = record.value?.batch?.find((e) => e.seq_id === shownSeq.value)?.phase;
  return html`<p class="sentence" id="sentence" aria-live="polite" aria-atomic="true">
    ${phase ? html`<span class=${`phase ${phase}`}><${Term} id=${phase} /></span>` : null}${text}
  </p>`;
}
