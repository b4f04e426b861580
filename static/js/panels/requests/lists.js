// Outliers: the slowest steps and the most preempted requests.

import { jumpTo } from "../../control/playback.js";
import { mostPreempted } from "../../core/requests.js";
import { grouped, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { runAddress } from "../../net/commands.js";
import { viewIndex } from "../../state/store.js";
import { GoodputSection } from "./goodput.js";

/** @typedef {ReturnType<typeof import("../../core/requests.js").requestFigures>} Figures */

/** @param {number} prefill @param {number} decode */
const tokensText = (prefill, decode) =>
  [
    ...(prefill || !decode ? [t("requests.slow_prefill", { n: grouped(prefill), count: prefill })] : []),
    ...(decode ? [t("requests.slow_decode", { n: grouped(decode), count: decode })] : []),
  ].join(t("join.list"));

/**
 * Lists of outliers. `queries` is the panel of queries over the whole log, which needs a server.
 * @param {{figures: Figures, open: (seq: number) => void, queries: import("../../kit/html.js").Component}} props
 */
export function Lists({ figures, open, queries }) {
  const { slowest, numSlow, median, rows } = figures;
  const preemptedRows = mostPreempted(rows);
  return html`<div class="requests-lists num">
    ${runAddress("what_if") === null ? null : html`<${queries} />`}
    <${GoodputSection} figures=${figures} open=${open} />
    <section aria-labelledby="requests-slowest">
      <h3 class="panel-title" id="requests-slowest">${t("requests.slowest")}
        <${Fidelity} kind="derived" formula="schedule + prepare + forward + sample" /></h3>
      <p class="hint">${t("requests.median", { median: secondsText(median), n: grouped(numSlow) })}</p>
      <ol>
        ${slowest.map(
          ({ record, step, seconds, prefill, decode, seqs }) => html`<li key=${record}>
            <button class="decision" aria-current=${viewIndex.value === record ? "step" : undefined}
              onClick=${() => jumpTo(record)}>
              <b>${secondsText(seconds)}</b>
              <span>${t("requests.slow_step", {
                step: grouped(step),
                tokens: tokensText(prefill, decode),
                seqs,
              })}</span>
            </button>
          </li>`,
        )}
      </ol>
    </section>
    <section aria-labelledby="requests-preempted">
      <h3 class="panel-title" id="requests-preempted">${t("requests.most_preempted")}
        <${Fidelity} kind="captured" /></h3>
      ${
        preemptedRows.length
          ? html`<ol>
            ${preemptedRows.map(
              ({ seq, request, preempted, lost }) => html`<li key=${seq}>
                <button class="decision" onClick=${() => open(seq)}>
                  <b>${grouped(preempted)} ×</b>
                  <span><${Swatch} id=${seq} />${request}${" "}
                    ${lost ? t("requests.victim", { lost: grouped(lost), n: lost }) : t("requests.nothing_lost")}</span>
                </button>
              </li>`,
            )}
          </ol>`
          : html`<p class="hint">${t("requests.none_preempted")}</p>`
      }
    </section>
  </div>`;
}
