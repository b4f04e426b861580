// Run a scenario here: how much work it is, how far it has got, and what it means for the timings.

import { useState } from "../../vendor/preact/hooks.js";
import { html } from "../kit/html.js";
import { Typed } from "../kit/typed.js";
import { inLanguage, t } from "../tell/words.js";
import { ScenarioLink } from "./list.js";
import { ask, run, show } from "./live.js";
import { index, scenarios } from "./store.js";
import { durationText, numberText } from "./words.js";

const active = (status) => status?.state === "running" || status?.state === "stopping";

export function RunBox({ scenario }) {
  const card = index.value.scenarios.find((found) => found.id === scenario);
  const [rounds, setRounds] = useState(null);
  if (!card) return null; // only a record knows it
  const { can_run: canRun, keeps_records: keeps } = index.value;
  const status = run.value;
  if (card.refused)
    return html`<p class="bench-run hint">${t("bench.run.refused", { why: inLanguage(card.refused) })}</p>`;
  if (!canRun) return html`<p class="bench-run hint">${t("bench.run.nowhere", { id: scenario })}</p>`;
  if (active(status)) return html`<${Progress} status=${status} scenario=${scenario} />`;
  const wanted = rounds ?? card.rounds;
  const start = () => ask("bench_run", { scenario, rounds: wanted });
  return html`<section class="bench-run" aria-label=${t("bench.run")}>
    <div class="bench-run-row">
      <button class="command" id="bench-run" disabled=${status === null} onClick=${start}>${t("bench.run")}</button>
      <label>${t("bench.run.rounds")} <${Typed} id="bench-rounds" type="number" min="1" max="1000" value=${wanted} onChange=${(event) => setRounds(Math.max(1, Math.min(1000, Math.round(Number(event.currentTarget.value)) || 1)))} /></label>
      <span class="hint num">${t("bench.run.size", { points: card.num_points, variants: card.num_variants, rounds: wanted })}</span>
    </div>
    ${status?.state === "failed" && status.scenario === scenario ? html`<p class="bench-problem" role="alert">${t("bench.run.failed", { error: status.error })}</p>` : null}
    ${status?.state === "done" && status.scenario === scenario ? html`<p class="hint"><button class="link" onClick=${() => show(status)}>${t("bench.run.show")}</button></p>` : null}
    <p class="hint">${t("bench.run.warning")}${keeps ? "" : ` ${t("bench.run.temporary")}`}</p>
  </section>`;
}

function Progress({ status, scenario }) {
  const own = status.scenario === scenario;
  const card = scenarios.value.find((found) => found.id === status.scenario);
  const title = card ? inLanguage(card.title) : status.scenario;
  return html`<section class="bench-run running" aria-label=${t("bench.run")}>
    ${own ? null : html`<p><${ScenarioLink} id=${status.scenario}>${t("bench.run.other", { scenario: title })}<//></p>`}
    <div class="bench-run-row">
      <button class="command" id="bench-stop" disabled=${status.state === "stopping"} onClick=${() => ask("bench_stop")}>${t("bench.run.stop")}</button>
      <progress max=${status.total || 1} value=${status.total ? status.done : null} aria-label=${title}></progress>
      <span class="num" id="bench-progress" role="status">${status.state === "stopping" ? t("bench.run.stopping") : phaseText(status)}</span>
    </div>
    <p class="hint num">
      ${status.total ? t("bench.run.done_of", { done: status.done, total: status.total }) : ""}
      ${status.seconds_left === null ? "" : ` · ${t("bench.run.left", { time: durationText(status.seconds_left) })}`}
    </p>
    <p class="hint">${t("bench.run.warning")}</p>
    ${status.theater ? html`<p class="hint"><a id="bench-watch" href=${`/?${new URLSearchParams({ theater: status.theater })}`} target="_blank" rel="noopener">${t("bench.run.watch")}</a>. ${t("bench.run.watch_note")}</p>` : null}
  </section>`;
}

function phaseText({ phase, round, rounds, variant, at }) {
  const text = t(`bench.run.${phase}`, { round, rounds });
  if (at === null) return text;
  return t("bench.run.measuring", { phase: text, variant, at: typeof at === "number" ? numberText(at) : at });
}
