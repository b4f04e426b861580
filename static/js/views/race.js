// With and without: the same prompt under three strategies, in step. Drawn from the lanes' own logs.

import { useEffect } from "../../vendor/preact/hooks.js";
import { bytesText, grouped, secondsText, t } from "../i18n/index.js";
import { racePrompt, SPEEDS } from "../model/actions.js";
import { wantedConfig, wantedSampling } from "../model/run_settings.js";
import { settings } from "../model/settings.js";
import { connection } from "../model/store.js";
import * as race from "../net/race.js";
import { raceAt } from "../trace/race.js";
import { html } from "./html.js";
import { RaceChart } from "./race_chart.js";
import { shown, shownStep } from "./race_look.js";
import { Proof } from "./race_proof.js";
import { LaneStrip, Legend } from "./race_strip.js";
import { raceSentence, TimeNote } from "./race_words.js";
import { Fidelity, Icon, tips } from "./words.js";

export function Race() {
  useEffect(() => {
    const before = settings.detail_large.peek();
    settings.detail_large.value = true; // three lanes, a chart and a proof want the room
    return () => {
      settings.detail_large.value = before;
      race.leave();
    };
  }, []);
  if (connection.value === "replay") return html`<p class="race-nothing hint" id="race-nothing">${t("race.replay")}</p>`;
  const logs = race.logs.value;
  race.numSteps.value; // the logs grow
  const now = logs ? raceAt(logs, shownStep.value) : null;
  return html`<div class="race" id="race" data-phase=${race.phase.value} data-step=${shownStep.value}>
    <${Controls} />
    <p class="race-sentence" id="race-sentence" aria-live=${race.phase.value === "running" ? "off" : "polite"}>${raceSentence(now, race)}</p>
    <${Lanes} logs=${logs} now=${now} />
    <${Proof} logs=${logs} now=${now} />
    <${RaceChart} logs=${logs} />
    <${TimeNote} logs=${logs} step=${shownStep.value} />
  </div>`;
}

/** What the three runs are asked: the score's prompt and sampling, one sample each, the default batching. */
function wish() {
  const { block_size, num_blocks, kv_cache_dtype } = wantedConfig();
  const { n, ...sampling } = wantedSampling();
  return { prompt: racePrompt(), sampling, config: { block_size, num_blocks, ...(kv_cache_dtype && { kv_cache_dtype }) } };
}

function Controls() {
  const phase = race.phase.value;
  const off = connection.value !== "live" || phase === "opening";
  const running = phase === "running";
  const over = phase === "done";
  const start = (action) => () => {
    shown.value = null;
    action(wish());
  };
  return html`<div class="race-controls" role="group" aria-label=${t("detail.race")}>
    <span class="swap">
      <button class="command primary" id="race-run" data-shown=${!running} disabled=${off || over || running} onClick=${start(race.run)}>
        <${Icon} name="run" /><span>${t("race.run")}</span>
      </button>
      <button class="command primary" id="race-pause" data-shown=${running} disabled=${!running} onClick=${race.pause}>
        <${Icon} name="pause" /><span>${t("race.pause")}</span>
      </button>
    </span>
    <button class="command" id="race-step" disabled=${off || over || running} onClick=${start(race.step)}><${Icon} name="step" /><span>${t("race.step")}</span></button>
    <button class="command" id="race-reset" disabled=${phase === "idle" || off} onClick=${restart}><${Icon} name="reset" /><span>${t("race.reset")}</span></button>
    <label class="speed">
      <span class="visually-hidden">${t("race.speed")}</span>
      <select id="race-speed" onChange=${(event) => (race.speed.value = Number(event.currentTarget.value))}>
        ${SPEEDS.map(
          (n) => html`<option value=${n} selected=${n === race.speed.value}>${n === 0 ? t("transport.speed_max") : t("transport.speed_value", { n })}</option>`,
        )}
      </select>
    </label>
    <input
      class="race-look"
      id="race-look"
      type="range"
      min="0"
      max=${Math.max(1, race.numSteps.value)}
      value=${shownStep.value}
      disabled=${race.numSteps.value === 0}
      aria-label=${t("race.look")}
      data-arrows
      onInput=${(event) => (shown.value = event.currentTarget.valueAsNumber >= race.numSteps.value ? null : event.currentTarget.valueAsNumber)}
    />
    <span class="race-position num" id="race-position">
      ${race.numSteps.value ? t("race.position", { i: shownStep.value, n: race.numSteps.value }) : t("race.before")}
    </span>
  </div>`;
}

function restart() {
  shown.value = null;
  race.reset();
}

function Lanes({ logs, now }) {
  const bytes = logs ? grouped(logs[0].header.kv_bytes_per_token) : "–";
  const group = (key, columns, kind, formula) => html`<th colspan=${columns} scope="colgroup">
    ${t(`race.column.${key}`)}${kind ? html` <${Fidelity} kind=${kind} formula=${formula} />` : null}
  </th>`;
  const column = (key, kind) => html`<th scope="col">
    ${t(`race.column.${key}`)}${kind ? html` <${Fidelity} kind=${kind} formula=${t("race.formula.tokens")} />` : null}
  </th>`;
  return html`<table class="race-lanes num">
    <thead>
      <tr>
        <td class="race-legend" rowspan="2"><${Legend} /></td>
        ${group("tokens", 2)} ${group("memory", 3, "derived", t("race.formula.memory", { bytes }))}
        ${group("flops", 2, "derived", t("race.formula.flops"))} ${group("time", 2, "derived", t("race.formula.time"))}
      </tr>
      <tr>
        ${column("step", "captured")} ${column("total", "derived")} ${["held", "used", "wasted", "step", "total", "step", "total"].map((key) => column(key))}
      </tr>
    </thead>
    ${race.STRATEGIES.map((name, i) => html`<${Lane} key=${name} name=${name} index=${i} lane=${now?.lanes[i]} log=${logs?.[i]} />`)}
  </table>`;
}

function Lane({ name, index, lane, log }) {
  const title = t(`race.${name}`);
  const exact = (value) => ({ tabindex: 0, ...tips(() => [t("memory.exact", { n: grouped(value) }), t("race.kept", { name: title, bytes: bytesText(lane.kept) })]) });
  const cell = (key, value, label, extra = {}) => html`<td data-figure=${key} data-label=${label} ...${extra}>${value}</td>`;
  const some = (value, text) => (lane ? text(value()) : "–");
  const bytes = (key) => cell(key, some(() => lane[key], bytesText), t(`race.column.${key}`), lane ? exact(lane[key]) : {});
  const within = (group, column) => `${t(`race.column.${group}`)} · ${t(`race.column.${column}`)}`; // where there is no head of columns
  return html`<tbody class="race-lane" data-strategy-lane=${name} data-finished=${Boolean(lane?.finished)}>
    <tr>
      <th scope="row">${title}</th>
      ${cell("computed", some(() => lane.computed, grouped), within("tokens", "step"))}
      ${cell("totalComputed", some(() => lane.totalComputed, grouped), within("tokens", "total"))} ${["held", "used", "wasted"].map(bytes)}
      ${cell("flops", some(() => lane.flops, operationsText), within("flops", "step"))}
      ${cell("totalFlops", some(() => lane.totalFlops, operationsText), within("flops", "total"))}
      ${cell("seconds", some(() => lane.seconds, secondsText), within("time", "step"))}
      ${cell("totalSeconds", some(() => lane.totalSeconds, secondsText), within("time", "total"))}
    </tr>
    <tr>
      <td class="race-strip-cell" colspan="10"><${LaneStrip} name=${title} index=${index} log=${log} lane=${lane} /></td>
    </tr>
  </tbody>`;
}

/** Operations with a decimal prefix: 11.4 M. */
export function operationsText(count) {
  const units = ["", "K", "M", "G", "T", "P"];
  let unit = 0;
  let value = count;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${Number(value.toPrecision(3))}${unit ? `\u2009${units[unit]}` : ""}`;
}
