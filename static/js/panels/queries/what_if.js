// Simulation of another pool size: the log's requests are replayed through scheduler and cache without a model.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { jumpTo } from "../../control/playback.js";
import { refusalText } from "../../i18n/language.js";
import { grouped, percentText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Select } from "../../kit/inputs.js";
import { pollAnswer } from "./poll_answer.js";

/** @import {Refusal} from "../../i18n/language.js" */

/**
 * @typedef {Record<typeof ROWS[number], number | null>} Figures
 * @typedef {{
 *   num_records: number, times: number, log: Figures, same: Figures, other: Figures, differs_in: number | null,
 * }} Found see engine/simulate/what_if.py
 */

const TIMES = [0.5, 1.5, 2, 4];
const ROWS = /** @type {const} */ ([
  "num_blocks",
  "preemptions",
  "recomputed_tokens",
  "evictions",
  "evicted_again",
  "asked_tokens",
  "hit_tokens",
  "computed_tokens",
  "steps",
  "steps_without_room",
  "ttft_steps_p50",
  "ttft_steps_p99",
  "finished",
  "refused",
]);

/** @param {{address: string}} props */
export function WhatIf({ address }) {
  const [times, setTimes] = useState("2");
  const [query, setQuery] = useState(/** @type {{times: string} | null} */ (null)); // a new object for each simulation
  const [done, setDone] = useState(0);
  const [found, setFound] = useState(/** @type {Found | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Refusal | null} */ (null));
  useEffect(() => {
    if (query === null) return undefined;
    return pollAnswer(
      `${address}?${new URLSearchParams(query)}`,
      (answer) => {
        setDone(answer.done);
        if (answer.found) setFound(answer.found);
        return Boolean(answer.found);
      },
      setProblem,
    );
  }, [query]);
  const simulate = () => {
    setFound(null);
    setProblem(null);
    setDone(0);
    setQuery({ times });
  };
  const isRunning = query !== null && !found && !problem;
  return html`<section aria-labelledby="queries-what-if" id="what-if">
    <h3 class="panel-title" id="queries-what-if">${t("queries.what_if")} <${Fidelity} kind="derived"
      formula=${t("queries.what_if.formula")} /></h3>
    <p class="hint">${t("queries.what_if.hint")}</p>
    <p class="queries-ask">
      <label>${t("queries.what_if.times")} <${Select} id="what-if-times" value=${times} commit=${setTimes}
        choices=${TIMES.map((one) => [one, `${one} ×`])} /></label>
      <button class="command" id="what-if-ask" disabled=${isRunning} aria-busy=${isRunning} onClick=${simulate}>${t(
        "queries.what_if.ask",
      )}</button>
      ${
        isRunning
          ? html`<progress max="1" value=${done} aria-label=${t("queries.what_if.replaying")}></progress>`
          : null
      }
    </p>
    ${problem ? html`<p class="queries-problem" role="alert">${refusalText(problem)}</p>` : null}
    ${found ? html`<${Result} found=${found} />` : null}
  </section>`;
}

/** @param {{found: Found}} props */
function Result({ found }) {
  const { log, same, other, differs_in: differs } = found;
  const sides = differs === null ? [log, other] : [log, same, other];
  const heads = ["log", ...(differs === null ? [] : ["own"]), "other", "difference"];
  return html`<p role="status">${
    differs === null
      ? t("queries.what_if.same", { n: grouped(found.num_records) })
      : html`${t("queries.what_if.differs")} <button class="ask-record" onClick=${() => jumpTo(differs)}
          >${grouped(differs)}</button>`
  }</p>
  <div class="queries-table" tabindex="0" role="region" aria-labelledby="queries-what-if"><table class="num">
    <thead><tr><th></th>${heads.map(
      (name) => html`<th scope="col" key=${name}>${t(`queries.what_if.${name}`, { times: found.times })}</th>`,
    )}</tr></thead>
    <tbody>${ROWS.filter((name) => name !== "refused" || other.refused).map(
      (name) => html`<tr key=${name} data-row=${name}>
        <th scope="row" title=${t(`queries.what_if.${name}.why`)}>${t(`queries.what_if.${name}`)}</th>
        ${sides.map((side, i) => html`<td key=${i}>${text(side[name])}</td>`)}
        <td>${differenceText(same[name], other[name])}</td>
      </tr>`,
    )}</tbody>
  </table></div>`;
}

/** @param {number | null} value */
const text = (value) => (value === null ? "–" : grouped(value));

/** @param {number | null} from @param {number | null} to */
function differenceText(from, to) {
  if (from === null || to === null) return "–";
  if (from === to) return "=";
  const sign = to > from ? "+" : "−";
  const share = from
    ? html`<span class="queries-share"> (${sign}${percentText(Math.abs(to - from) / from)})</span>`
    : null;
  return html`${sign}${grouped(Math.round(100 * Math.abs(to - from)) / 100)}${share}`;
}
