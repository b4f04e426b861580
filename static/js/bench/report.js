// Report of one scenario: description, headlines, charts, machines, all figures.

import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { saveText } from "../kit/save.js";
import { Charts } from "./charts.js";
import { Findings } from "./findings.js";
import { axisPoints, csvOf, failures, variantTitle } from "./record.js";
import { RunBox } from "./run.js";
import {
  canRun,
  choose,
  chosenOf,
  dropped,
  failedOf,
  loaded,
  recordsOf,
  removeDropped,
  scenarios,
  shownOf,
} from "./store.js";
import { Figures } from "./table.js";
import { machineText, wasBusy, whereParts } from "./where.js";
import { atText, momentText } from "./words.js";

/** @import {Listed, Shown} from "./store.js" */

/** @typedef {{all: Shown[], labels: Map<string, string>}} Parts shown records, and their labels by id */

/** @param {{scenario: string}} props */
export function Report({ scenario }) {
  const all = shownOf(scenario);
  const scenarioInfo = all[0]?.record.scenario ?? scenarios.value.find((card) => card.id === scenario);
  const waiting = chosenOf(scenario).some((id) => !loaded.value.has(id));
  const labels = new Map(all.map((one) => [one.id, labelOf(one)]));
  const parts = [Findings, Charts, Machines, Tables];
  return html`<article class="bench-report" aria-busy=${waiting}>
    <h2>${scenarioInfo ? inLanguage(scenarioInfo.title) : scenario}</h2>
    ${
      scenarioInfo?.text
        ? html`<p class="bench-text">
          <span class="bench-look">${t("bench.look")}</span> <${Marked} text=${inLanguage(scenarioInfo.text)} />
        </p>`
        : null
    }
    <${RunBox} scenario=${scenario} />
    <${RecordList} scenario=${scenario} />
    ${failedOf(scenario).map(
      (reason) => html`<p class="bench-problem" role="alert">${t("bench.unreachable", { reason })}</p>`,
    )}
    ${all.length ? parts.map((Section) => html`<${Section} all=${all} labels=${labels} />`) : null}
    ${!all.length && waiting ? html`<p class="hint">${t("bench.loading")}</p>` : null}
  </article>`;
}

/** Text with `code` between backquotes. @param {{text: string}} props */
const Marked = ({ text }) => text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));

/** Return the label of a record: its origin and date. @param {Pick<Shown, "entry" | "name" | "record">} shown */
function labelOf({ entry, name, record }) {
  const origin = entry ? t(`bench.origin.${entry.origin}`) : t("bench.origin.dropped", { name });
  return `${origin}, ${momentText(record.environment.created)}`;
}

/** Selection of the shown records. @param {{scenario: string}} props */
function RecordList({ scenario }) {
  const entries = recordsOf(scenario);
  const others = dropped.value.filter(({ record }) => record.scenario.id === scenario);
  const chosen = chosenOf(scenario);
  if (!entries.length && !others.length)
    return html`<p class="bench-none">${t(canRun(scenario) ? "bench.none" : "bench.none_elsewhere")}</p>`;
  return html`<fieldset class="bench-records">
    <legend>${t("bench.records")}</legend>
    ${entries.map((entry) => html`<${RecordRow} key=${entry.id} entry=${entry} shown=${chosen.includes(entry.id)} />`)}
    ${others.map((one) => html`<${Dropped} key=${one.id} one=${one} />`)}
    ${!chosen.length && !others.length ? html`<p class="hint">${t("bench.none_chosen")}</p>` : null}
  </fieldset>`;
}

/** Checkbox of a record of the server. @param {{entry: Listed, shown: boolean}} props */
function RecordRow({ entry, shown }) {
  const { scenario, id, environment } = entry;
  const chosen = (/** @type {Event & {currentTarget: HTMLInputElement}} */ event) =>
    choose(scenario, id, event.currentTarget.checked);
  return html`<label>
    <input type="checkbox" checked=${shown} onChange=${chosen} />
    <span>
      ${t(`bench.origin.${entry.origin}`)}, ${momentText(environment.created)}${" "}
      <span class="hint">${machineText(entry)}</span>
    </span>
  </label>`;
}

/** @param {{one: Pick<Shown, "id" | "record"> & {name: string}}} props */
function Dropped({ one: { id, name, record } }) {
  const text = t("bench.forget");
  return html`<div class="bench-dropped">
    <span>${labelOf({ entry: null, name, record })} <span class="hint">${machineText(record)}</span></span>
    <button class="link" onClick=${() => removeDropped(id)} aria-label=${`${text}: ${name}`}>${text}</button>
  </div>`;
}

/** @param {Parts} props */
function Machines({ all, labels }) {
  return html`<section class="bench-where" aria-labelledby="bench-where">
    <h3 id="bench-where">${t("bench.where")}</h3>
    ${all.map(({ id, record }) => {
      const file = `${record.scenario.id}-${id}.json`;
      const label = `${t("bench.save.json")}: ${labels.get(id)}`;
      const saving = () => saveText(JSON.stringify(record, null, 1), file, "application/json");
      return html`<div key=${id}>
        ${all.length > 1 ? html`<p class="bench-cell-name">${labels.get(id)}</p>` : null}
        <p class=${wasBusy(record) ? "num bench-busy" : "num"}>${whereParts(record).join(" · ")}</p>
        <p class="bench-command"><code>${record.environment.command}</code>${" "}
          <button class="link" onClick=${saving} aria-label=${label}>JSON</button></p>
      </div>`;
    })}
  </section>`;
}

/** @param {Parts} props */
function Tables({ all, labels }) {
  const saving = t("bench.save.csv");
  const csv = () => saveText(csvOf(all), `${all[0].record.scenario.id}.csv`);
  const failed = all.flatMap(({ record }) =>
    failures(record).map((failure) => html`<${FailedPoints} record=${record} ...${failure} />`),
  );
  return html`<section class="bench-tables" aria-labelledby="bench-tables">
    <h3 id="bench-tables">
      ${t("bench.table")}${" "}
      <button class="link" id="bench-csv" onClick=${csv} aria-label=${saving} title=${saving}>CSV</button>
    </h3>
    ${all.map(
      (one) => html`<div key=${one.id}>
      ${all.length > 1 ? html`<p class="bench-cell-name">${labels.get(one.id)}</p>` : null}
      <${Figures} shown=${one} label=${labels.get(one.id)} />
    </div>`,
    )}
    <p class="hint bench-note">${t("bench.table.caption")}</p>
    ${failed.length ? html`<h4>${t("bench.failures")}</h4><ul class="bench-lost">${failed}</ul>` : null}
  </section>`;
}

/**
 * Failed points of a variant, with the reason.
 * @param {{record: Shown["record"]} & ReturnType<typeof failures>[number]} props
 */
function FailedPoints({ record, variant, why, at }) {
  const places = axisPoints(record).filter((where) => at.includes(where.at));
  return html`<li><b>${variantTitle(record, variant)}</b> (${places.map(atText).join("; ")}): ${why}</li>`;
}
