// Controls for running a scenario on this server: amount of work, progress, and a warning about timings.

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { Numeric } from "../kit/inputs.js";
import { ScenarioLink } from "./list.js";
import { ask, run, secondsLeft, show } from "./live.js";
import { listed, scenarios } from "./store.js";
import { durationText, numberText } from "./words.js";

/** @import {RunStatus} from "../core/bench.js" */

const MAX_ROUNDS = 1000;

/** @param {RunStatus | null} status */
const active = (status) => status?.state === "running" || status?.state === "stopping";

/** @param {{scenario: string}} props */
export function RunBox({ scenario }) {
  const { scenarios: cards, can_run: canRun, keeps_records: keeps } = listed();
  const card = cards.find((found) => found.id === scenario);
  const [rounds, setRounds] = useState(/** @type {number | null} */ (null));
  if (!card) return null; // a scenario that only a record names
  const status = run.value;
  if (card.refused)
    return html`<p class="bench-run hint">${t("bench.run.refused", { why: inLanguage(card.refused) })}</p>`;
  if (!canRun) return html`<p class="bench-run hint">${t("bench.run.nowhere", { id: scenario })}</p>`;
  if (active(status)) return html`<${Progress} status=${status} scenario=${scenario} />`;
  const numRounds = rounds ?? card.rounds;
  const start = () => ask("bench_run", { scenario, rounds: numRounds });
  const size = { points: card.num_points, variants: card.num_variants, rounds: numRounds };
  return html`<section class="bench-run" aria-label=${t("bench.run")}>
    <div class="bench-run-row">
      <button class="command" id="bench-run" disabled=${status === null} onClick=${start}>${t("bench.run")}</button>
      <label>
        ${t("bench.run.rounds")}${" "}
        <${Numeric} id="bench-rounds" bounds=${{ min: 1, max: MAX_ROUNDS, whole: true }} value=${numRounds}
          commit=${setRounds} />
      </label>
      <span class="hint num">${t("bench.run.size", size)}</span>
    </div>
    ${status?.scenario === scenario ? html`<${Ended} status=${status} />` : null}
    <p class="hint">${t("bench.run.warning")}${keeps ? "" : ` ${t("bench.run.temporary")}`}</p>
  </section>`;
}

/** Outcome of the scenario's last run. @param {{status: RunStatus}} props */
function Ended({ status }) {
  if (status.state === "failed")
    return html`<p class="bench-problem" role="alert">${t("bench.run.failed", { error: status.error })}</p>`;
  if (status.state !== "done") return null;
  return html`<p class="hint"><button class="link" onClick=${() => show(status)}>${t("bench.run.show")}</button></p>`;
}

/** @param {{status: RunStatus, scenario: string}} props `scenario`: the displayed one */
function Progress({ status, scenario }) {
  const { state, done, total } = status;
  const left = useSecondsLeft(status);
  const card = scenarios.value.find((found) => found.id === status.scenario);
  const title = card ? inLanguage(card.title) : status.scenario;
  const stopping = state === "stopping";
  const other = html`<p>
    <${ScenarioLink} id=${status.scenario}>${t("bench.run.other", { scenario: title })}<//>
  </p>`;
  return html`<section class="bench-run running" aria-label=${t("bench.run")}>
    ${status.scenario === scenario ? null : other}
    <div class="bench-run-row">
      <button class="command" id="bench-stop" disabled=${stopping} onClick=${() => ask("bench_stop")}>
        ${t("bench.run.stop")}
      </button>
      <progress max=${total || 1} value=${total ? done : null} aria-label=${title}></progress>
      <span class="num" id="bench-progress" role="status">
        ${stopping ? t("bench.run.stopping") : phaseText(status)}
      </span>
    </div>
    <p class="num" id="bench-left">
      ${left === null ? t("bench.run.left_unknown") : html`<b>${t("bench.run.left", { time: durationText(left) })}</b>`}
      ${total ? html` <span class="hint">${t("bench.run.done_of", { done, total })}</span>` : null}
    </p>
    <p class="hint">${t("bench.run.warning")}</p>
    ${status.theater ? html`<${Watch} theater=${status.theater} />` : null}
  </section>`;
}

const TICK = 5000; // ms

/**
 * Return the remaining time, updated every TICK, since a slow variant reports nothing for minutes.
 * @param {RunStatus} status
 */
function useSecondsLeft(status) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), TICK);
    return () => clearInterval(timer);
  }, []);
  return secondsLeft(status);
}

/** Link to the stage that shows the run. @param {{theater: string}} props */
function Watch({ theater }) {
  const address = `./?${new URLSearchParams({ theater })}`;
  return html`<p class="hint">
    <a id="bench-watch" href=${address} target="_blank" rel="noopener">${t("bench.run.watch")}</a>.${" "}
    ${t("bench.run.watch_note")}
  </p>`;
}

/** @param {RunStatus} status */
function phaseText({ phase, round, rounds, variant, at }) {
  const text = t(`bench.run.${phase}`, { round, rounds });
  if (at === null) return text;
  return t("bench.run.measuring", { phase: text, variant, at: typeof at === "number" ? numberText(at) : at });
}
