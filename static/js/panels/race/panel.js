// With and without: the same prompt under three strategies, in step. Drawn from the lanes' own logs.

import { racePrompt } from "../../control/actions.js";
import { html } from "../../kit/html.js";
import { Fidelity, tips } from "../../kit/parts.js";
import { LockstepControls, useLanes } from "../../runs/lockstep_controls.js";
import { raceAt } from "../../runs/race.js";
import { wantedConfig, wantedSampling } from "../../state/run_settings.js";
import { connection } from "../../state/store.js";
import { bytesText, grouped, secondsText, t } from "../../tell/words.js";
import { RaceChart } from "./chart.js";
import { race, STRATEGIES } from "./model.js";
import { Proof } from "./proof.js";
import { LaneStrip, Legend } from "./strip.js";
import { raceSentence, TimeNote } from "./words.js";

export function Panel() {
  useLanes(race);
  if (connection.value === "replay")
    return html`<p class="race-nothing hint" id="race-nothing">${t("race.replay")}</p>`;
  const logs = race.logs.value;
  race.numSteps.value; // the logs grow
  const now = logs ? raceAt(logs, race.shownStep.value) : null;
  return html`<div class="race" id="race" data-phase=${race.phase.value} data-step=${race.shownStep.value}>
    <${LockstepControls} lanes=${race} wish=${wish} />
    <p class="race-sentence" id="race-sentence" aria-live=${race.phase.value === "running" ? "off" : "polite"}>${raceSentence(now)}</p>
    <${Lanes} logs=${logs} now=${now} />
    <${Proof} logs=${logs} now=${now} />
    <${RaceChart} logs=${logs} />
    <${TimeNote} logs=${logs} step=${race.shownStep.value} />
  </div>`;
}

/** What the three runs are asked: the setup's prompt and sampling, one sample each, the default batching. */
function wish() {
  const { block_size, num_blocks, kv_cache_dtype } = wantedConfig();
  const { n, ...sampling } = wantedSampling();
  const config = { block_size, num_blocks, ...(kv_cache_dtype && { kv_cache_dtype }) };
  const configs = Object.fromEntries(STRATEGIES.map((strategy) => [strategy, { ...config, strategy }]));
  return { prompts: [racePrompt()], sampling, configs };
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
    ${STRATEGIES.map((name, i) => html`<${Lane} key=${name} name=${name} index=${i} lane=${now?.lanes[i]} log=${logs?.[i]} />`)}
  </table>`;
}

function Lane({ name, index, lane, log }) {
  const title = t(`race.${name}`);
  const exact = (value) => ({
    tabindex: 0,
    ...tips(() => [
      t("memory.exact", { n: grouped(value) }),
      t("race.kept", { name: title, bytes: bytesText(lane.kept) }),
    ]),
  });
  const cell = (key, value, label, extra = {}) =>
    html`<td data-figure=${key} data-label=${label} ...${extra}>${value}</td>`;
  const some = (value, text) => (lane ? text(value()) : "–");
  const bytes = (key) =>
    cell(
      key,
      some(() => lane[key], bytesText),
      t(`race.column.${key}`),
      lane ? exact(lane[key]) : {},
    );
  const within = (group, column) => `${t(`race.column.${group}`)} · ${t(`race.column.${column}`)}`; // where there is no head of columns
  return html`<tbody class="race-lane" data-strategy-lane=${name} data-finished=${Boolean(lane?.finished)}>
    <tr>
      <th scope="row">${title}</th>
      ${cell(
        "computed",
        some(() => lane.computed, grouped),
        within("tokens", "step"),
      )}
      ${cell(
        "totalComputed",
        some(() => lane.totalComputed, grouped),
        within("tokens", "total"),
      )} ${["held", "used", "wasted"].map(bytes)}
      ${cell(
        "flops",
        some(() => lane.flops, operationsText),
        within("flops", "step"),
      )}
      ${cell(
        "totalFlops",
        some(() => lane.totalFlops, operationsText),
        within("flops", "total"),
      )}
      ${cell(
        "seconds",
        some(() => lane.seconds, secondsText),
        within("time", "step"),
      )}
      ${cell(
        "totalSeconds",
        some(() => lane.totalSeconds, secondsText),
        within("time", "total"),
      )}
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
