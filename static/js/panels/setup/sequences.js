// All sequences of the run at the shown record: progress, text and latencies. The list scrolls.

import { useEffect, useRef } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { abort } from "../../control/actions.js";
import { draftTotals } from "../../core/drafts.js";
import { instanceName } from "../../core/instances.js";
import { joinText } from "../../core/labels.js";
import { latencies, outlyingGap } from "../../core/metrics.js";
import { langOf, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Term } from "../../kit/term.js";
import { textLine } from "../../kit/text_line.js";
import { settings } from "../../state/settings.js";
import { connection, log, ownIsShown, shownSeq, state, status, viewIndex } from "../../state/store.js";

/** @import {Sequence} from "../../state/store.js" */

const MANY_FROM = 6; // with this many sequences, the list has a filter and only the shown one has its text
/** @type {Sequence["status"][]} */
const STATUSES = ["running", "waiting", "receiving", "preempted", "finished"];

/** Chosen status, or null for all. */
const statusFilter = signal(/** @type {Sequence["status"] | null} */ (null));

export function Sequences() {
  const all = state.value ? [...state.value.sequences.values()] : [];
  const isMany = all.length >= MANY_FROM;
  const listed = isMany && statusFilter.value ? all.filter((seq) => seq.status === statusFilter.value) : all;
  return html`<div class="group sequences">
    <h3 class="group-title">${t("setup.sequences")} <${Fidelity} kind="captured" /></h3>
    ${isMany ? html`<${Filter} all=${all} />` : null}
    <${ScheduledPrompts} />
    ${
      all.length === 0
        ? html`<p class="hint">${t("setup.no_sequences")}</p>`
        : html`<ul class=${isMany ? "sequence-list many" : "sequence-list"} tabindex=${isMany ? 0 : undefined}
          aria-label=${t("setup.sequences")}>
          ${listed.length === 0 ? html`<li class="hint">${t("sequences.none")}</li>` : null}
          ${listed.map(
            (seq) => html`<${SequenceItem} key=${seq.seq_id} seq=${seq}
            brief=${isMany && shownSeq.value !== seq.seq_id} />`,
          )}
        </ul>`
    }
  </div>`;
}

/** Scheduled prompts that are submitted automatically later. */
function ScheduledPrompts() {
  const coming = ownIsShown.value ? (status.value?.coming ?? []) : [];
  if (!coming.length) return null;
  const n = coming.length;
  return html`<p class="hint num" id="coming">${t("setup.coming", { n, steps: Math.max(0, Math.min(...coming)) })}</p>`;
}

/** @param {{all: Sequence[]}} props */
function Filter({ all }) {
  /** @param {Sequence["status"]} status */
  const count = (status) => all.filter((seq) => seq.status === status).length;
  /** @type {(status: Sequence["status"] | null, label: string, n: number) => import("../../kit/html.js").Children} */
  const button = (status, label, n) =>
    html`<button class="filter" aria-pressed=${statusFilter.value === status}
      disabled=${n === 0 && statusFilter.value !== status} onClick=${() => (statusFilter.value = status)}>
      ${label} <span class="num">${n}</span>
    </button>`;
  return html`<div class="filters" role="group" aria-label=${t("sequences.filter")}>
    ${button(null, t("sequences.all"), all.length)} ${STATUSES.filter(
      (status) => status !== "receiving" || (log.value?.header.instances?.length ?? 0) > 1,
    ).map((status) => button(status, t(`status.${status}`), count(status)))}
  </div>`;
}

/** An entry of the list. `brief`: one line and the bar. @param {{seq: Sequence, brief: boolean}} props */
function SequenceItem({ seq, brief }) {
  const name = t("sequence.name", { id: seq.seq_id });
  const shown = shownSeq.value === seq.seq_id;
  const alive = seq.status !== "finished" && connection.value === "live" && ownIsShown.value;
  const output = seq.token_ids.length - seq.num_prompt_tokens;
  const instance = log.value ? instanceName(log.value.header, seq.instance) : "";
  const held = state.value?.holding.includes(seq.seq_id);
  const item = useRef(/** @type {HTMLLIElement | null} */ (null));
  const chosen = settings.seq.value === seq.seq_id; // by a click or a link, so it may not be visible
  useEffect(() => void (chosen && showIn(item.current)), [chosen]);
  return html`<li class=${shown ? "sequence shown" : "sequence"} ref=${item}>
    <button class="sequence-main" aria-pressed=${shown} aria-description=${t("sequence.show", { name })}
      title=${t("sequence.request", { request: seq.request_id })} onClick=${() => (settings.seq.value = seq.seq_id)}>
      <span class="sequence-head">
        <${Swatch} id=${seq.seq_id} /> <b>${name}</b>
        ${instance ? html`<span class="sequence-instance">${instance}</span>` : null}
        <span class=${`status ${seq.status}`}>${t(`status.${held ? "holding" : seq.status}`)}</span>
        <span class="num">${seq.num_prompt_tokens} + ${output}</span>
      </span>
      <${Progress} seq=${seq} output=${output} />
      ${brief ? null : html`<${Text} seq=${seq} />`}
    </button>
    ${
      brief || /^request-\d+$/.test(seq.request_id)
        ? null
        : html`<p
      class="sequence-times">${t("sequence.request", { request: seq.request_id })}</p>`
    }
    ${brief ? null : html`<${Times} seq=${seq} />`}
    ${
      alive
        ? html`<button class="tool small" aria-label=${t("setup.abort", { name })} title=${t("setup.abort", { name })}
          onClick=${() => abort(seq.request_id)}>
          <${Icon} name="close" />
        </button>`
        : null
    }
  </li>`;
}

/** Scroll the list, but not the regions around it, until the item is visible. @param {HTMLElement | null} item */
function showIn(item) {
  const list = item?.parentElement;
  if (!item || !list) return;
  const top = item.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + item.offsetHeight > list.scrollTop + list.clientHeight)
    list.scrollTop = top + item.offsetHeight - list.clientHeight;
}

/**
 * Bar of the computed prompt and the output, relative to the maximum length of the sequence.
 * @param {{seq: Sequence, output: number}} props
 */
function Progress({ seq, output }) {
  const maxLength = seq.num_prompt_tokens + seq.max_tokens;
  const done = Math.min(seq.num_computed_tokens, seq.num_prompt_tokens);
  // generated tokens count even after their K and V are freed
  const computed = output > 0 ? seq.num_prompt_tokens : done;
  const label = t("sequences.progress", { done, n: seq.num_prompt_tokens, output, max: seq.max_tokens });
  return html`<span class="sequence-bar" role="img" aria-label=${label} title=${label}>
    <i class="prompt-part" style=${{ width: `${(100 * computed) / maxLength}%` }}></i><i class="output-part"
      style=${{ width: `${(100 * output) / maxLength}%` }}></i>
  </span>`;
}

/** @param {{seq: Sequence}} props */
function Text({ seq }) {
  const prompt = joinText(seq.token_bytes.slice(0, seq.num_prompt_tokens));
  const output = joinText(seq.token_bytes.slice(seq.num_prompt_tokens));
  return html`<span class="sequence-text" lang=${langOf(prompt)}
    ><span class="prompt">${textLine(tail(prompt, output ? 28 : 60))}</span><span
      class="generated">${textLine(tail(output, 40))}</span></span
  >`;
}

/** @param {{seq: Sequence}} props */
function Times({ seq }) {
  if (!log.value) return null;
  const times = latencies(log.value, seq.seq_id, viewIndex.value);
  const slow = outlyingGap(times.itl);
  const drafts = draftTotals(log.value, seq.seq_id, viewIndex.value);
  return html`<span class="sequence-times num">
    <${Term} id="ttft">TTFT<//> ${secondsText(times.ttft)}<span class="dot">·</span><${Term}
      id="tpot">TPOT<//> ${secondsText(times.tpot)}${
        slow
          ? html` <span class="sequence-slow">${t("sequences.slow_step", {
              slow: secondsText(slow.seconds),
              rest: secondsText(slow.rest),
            })}</span>`
          : null
      }${drafts.steps ? html`<span class="dot">·</span><${Term} id="draft">${t("sequences.drafts", drafts)}<//>` : null}
  </span>`;
}

/** @param {string} text @param {number} length */
function tail(text, length) {
  const characters = Array.from(text);
  return characters.length > length ? `…${characters.slice(-length).join("")}` : text;
}
