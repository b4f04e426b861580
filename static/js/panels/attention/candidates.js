// Candidates of the step: the most probable tokens of the model's output.

import { computed } from "../../../vendor/signals/signals.js";
import { canFork, fork, progress } from "../../control/fork.js";
import { loneLabel } from "../../core/labels.js";
import { langOf, probabilityText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { useBox } from "../../kit/measure.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { phase } from "../../state/stage_playhead.js";
import { sequenceView } from "../../state/store.js";

/** Whether the shown sub-step is at or after sampling. */
const sampled = computed(() => phase("sample") > 0);

const ROW = 18; // px of a line, including the border of a button
const MIN_LINES = 3; // the sampled token, one alternative, and the rest

/**
 * List of candidates. `choice` replaces the title where two panels share one place. With `fits`, only as many
 * candidates are listed as the panel's height allows.
 * @param {{choice?: import("../../kit/html.js").Children, fits?: boolean}} props
 */
export function Candidates({ choice = null, fits = false }) {
  const [room, size] = useBox();
  const maxLines = fits && size.height ? Math.max(MIN_LINES, Math.floor(size.height / ROW)) : Number.POSITIVE_INFINITY;
  const output = sampled.value ? sequenceView.value?.output : null;
  return html`<section class="panel candidates">
    <h3 class="panel-title">${choice ?? t("candidates.title")} <${Fidelity} kind="captured" /></h3>
    <div class="candidate-room" ref=${room}>
      ${
        output
          ? html`<${List} output=${output} maxLines=${maxLines} />`
          : html`<p class="hint">${t("candidates.empty")}</p>`
      }
    </div>
    <p class="panel-foot candidate-foot">${output && canFork.value ? t("candidates.take") : null}</p>
  </section>`;
}

/**
 * The most probable tokens including the sampled one, then the rest: at most `maxLines` lines.
 * @param {{output: import("../../core/trace.js").Output, maxLines: number}} props
 */
function List({ output, maxLines }) {
  const top = output.top.slice(0, maxLines - 1);
  const isListed = top.some((c) => c.token_id === output.token_id);
  const chosen = { token_id: output.token_id, token_bytes: output.token_bytes, logprob: output.logprob };
  const listed = isListed ? top : [...top.slice(0, -1), chosen];
  const rest = Math.max(0, 1 - listed.reduce((sum, c) => sum + Math.exp(c.logprob), 0));
  return html`<ol class="candidate-list">
    ${listed.map((c, i) => {
      const place = output.top.findIndex((one) => one.token_id === c.token_id);
      const rank =
        place < 0 ? t("candidates.beyond", { n: output.top.length }) : t("candidates.rank", { n: place + 1 });
      const lines = [
        t("candidates.logprob", { p: rounded(Math.exp(c.logprob)), logprob: c.logprob.toFixed(4).replace("-", "−") }),
        rank,
        t("candidates.raw"),
      ];
      const isSampled = c.token_id === output.token_id;
      const canTake = !isSampled && canFork.value && !progress.value;
      return html`<${Row} key=${i} label=${candidateText(c.token_bytes)} p=${Math.exp(c.logprob)} chosen=${isSampled}
        lines=${lines} take=${canTake ? () => takeInstead(output.seq_id, c.token_id) : null} />`;
    })}
    <${Row} key="rest" label=${t("candidates.rest")} p=${rest} rest=${true}
      lines=${[t("candidates.rest_formula", { n: listed.length })]} />
  </ol>`;
}

/**
 * Fork the run at the shown record with `token` as the sequence's next token.
 * @param {number} seq @param {number} token
 */
function takeInstead(seq, token) {
  const now = sequenceView.peek();
  hideTip();
  return now && fork({ kind: "token", seq_id: seq, token_id: token, record: now.index });
}

/**
 * @param {{
 *   label: string, p: number, lines: string[], chosen?: boolean, rest?: boolean, take?: (() => void) | null
 * }} props
 */
function Row({ label, p, lines, chosen = false, rest = false, take = null }) {
  const action = t("fork.take", { token: label });
  /** @param {PointerEvent} event */
  const onPoint = (event) => tipAt(event.clientX, event.clientY, take ? [action, ...lines] : lines);
  return html`<li class=${`candidate${chosen ? " chosen" : ""}${rest ? " rest" : ""}`}
    onPointerMove=${onPoint} onPointerLeave=${hideTip}>
    ${
      take
        ? html`<button class="candidate-take" onClick=${take} aria-label=${action}>
          <span class="candidate-token" lang=${langOf(label)}>${label}</span><${Icon} name="fork" />
        </button>`
        : html`<span class="candidate-token" lang=${langOf(label)}>${label}${
            rest
              ? html` <${Fidelity} kind="derived"
          formula=${lines[0]} />`
              : null
          }${
            chosen
              ? html`<span
          class="visually-hidden"> (${t("candidates.chosen")})</span>`
              : null
          }</span>
        <span class="candidate-mark" aria-hidden="true">${chosen ? "✓" : ""}</span>`
    }
    <span class="candidate-bar" aria-hidden="true"><i style=${{ width: `${Math.max(0.5, p * 100)}%` }}></i></span>
    <span class="num">${probabilityText(p)}</span>
    <span class="visually-hidden">${lines.join("; ")}</span>
  </li>`;
}

/** @param {Uint8Array} bytes */
function candidateText(bytes) {
  const label = loneLabel(bytes);
  return label.of ? `⟨${label.hex}⟩` : label.text;
}

/** @param {number} p */
const rounded = (p) => Number(p.toPrecision(4));
