// One scenario: what to look for, its headlines, its charts, where they were measured, all figures.

import { html } from "../kit/html.js";
import { inLanguage, t } from "../tell/words.js";
import { Chart, Legend } from "./chart.js";
import { variantTitle } from "./figure.js";
import { Findings } from "./findings.js";
import { link } from "./link.js";
import { axisPoints, baselinesOf, csvOf, failures, highest, isCategorical, metricsOf } from "./record.js";
import { RunBox } from "./run.js";
import { choose, chosenOf, dropped, forget, loaded, recordsOf, runsHere, scenarios, shownOf } from "./store.js";
import { Figures } from "./table.js";
import { machineText, wasBusy, whereParts } from "./where.js";
import { atText, momentText } from "./words.js";

export function Report({ scenario }) {
  const all = shownOf(scenario);
  const about = all[0]?.record.scenario ?? scenarios.value.find((card) => card.id === scenario);
  const waiting = chosenOf(scenario).some((id) => !loaded.value.has(id));
  const failed = chosenOf(scenario)
    .map((id) => loaded.value.get(id)?.failed)
    .filter(Boolean);
  const labels = new Map(all.map((one) => [one.id, labelOf(one)]));
  return html`<article class="bench-report" aria-busy=${waiting}>
    <h2>${about ? inLanguage(about.title) : scenario}</h2>
    ${about?.text ? html`<p class="bench-text"><span class="bench-look">${t("bench.look")}</span> <${Marked} text=${inLanguage(about.text)} /></p>` : null}
    <${RunBox} scenario=${scenario} />
    <${Choice} scenario=${scenario} />
    ${failed.map((reason) => html`<p class="bench-problem" role="alert">${t("bench.unreachable", { reason })}</p>`)}
    ${all.length ? html`<${Findings} all=${all} labels=${labels} /><${Charts} all=${all} labels=${labels} /><${Machines} all=${all} labels=${labels} /><${Tables} all=${all} labels=${labels} />` : waiting ? html`<p class="hint">${t("bench.loading")}</p>` : null}
  </article>`;
}

/** A text with `code` in it. */
const Marked = ({ text }) => text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));

const originText = ({ entry, name }) =>
  entry ? t(`bench.origin.${entry.origin}`) : t("bench.origin.dropped", { name });

/** Whose record it is, in a few words. */
const labelOf = (one) => `${originText(one)}, ${momentText(one.record.environment.created)}`;

/** Which records are shown. */
function Choice({ scenario }) {
  const entries = recordsOf(scenario);
  const others = dropped.value.filter(({ record }) => record.scenario.id === scenario);
  const chosen = chosenOf(scenario);
  if (!entries.length && !others.length)
    return html`<p class="bench-none">${t(runsHere(scenario) ? "bench.none" : "bench.none_elsewhere")}</p>`;
  return html`<fieldset class="bench-records">
    <legend>${t("bench.records")}</legend>
    ${entries.map(
      (entry) => html`<label key=${entry.id}>
        <input type="checkbox" checked=${chosen.includes(entry.id)} onChange=${(event) => choose(scenario, entry.id, event.currentTarget.checked)} />
        <span>${originText({ entry })}, ${momentText(entry.environment.created)} <span class="hint">${machineText(entry)}</span></span>
      </label>`,
    )}
    ${others.map(
      ({ id, name, record }) => html`<div class="bench-dropped" key=${id}>
        <span>${t("bench.origin.dropped", { name })}, ${momentText(record.environment.created)} <span class="hint">${machineText(record)}</span></span>
        <button class="link" onClick=${() => forget(id)} aria-label=${`${t("bench.forget")}: ${name}`}>${t("bench.forget")}</button>
      </div>`,
    )}
    ${!chosen.length && !others.length ? html`<p class="hint">${t("bench.none_chosen")}</p>` : null}
  </fieldset>`;
}

function Charts({ all, labels }) {
  const records = all.map(({ record }) => record);
  const metrics = metricsOf(records);
  const names = Object.keys(metrics);
  const metric = names.includes(link.metric.value) ? link.metric.value : names[0];
  if (!metric) return html`<p class="hint">${t("bench.chart.empty")}</p>`;
  const baselines = [...new Set(records.flatMap((record) => baselinesOf(record, metric)))];
  const against = baselines.includes(link.against.value) ? link.against.value : (baselines[0] ?? null);
  const info = metrics[metric];
  const most = highest(records, metric);
  const mostRatio = against === null ? 0 : Math.max(1, highest(records, metric, against));
  const rows = [null, ...(against === null ? [] : [against])];
  const columns = all.length > 1 ? all.length : rows.length;
  const chart = (one, baseline) => html`<div class="bench-cell" key=${`${one.id} ${baseline}`}>
    ${all.length > 1 ? html`<p class="bench-cell-name">${labels.get(one.id)} <span class="hint">${machineText(one.record)}</span></p>` : null}
    <${Chart} key=${`${one.id} ${metric} ${baseline}`} shown=${one} metric=${metric} against=${baseline} most=${baseline === null ? most : mostRatio} where=${wrapLine(whereParts(one.record).join(" · "), 150)} />
  </div>`;
  const kind = [t(`bench.metric.${info.source}`), info.better && t(`bench.better.${info.better}`)]
    .filter(Boolean)
    .join("; ");
  const named =
    records.find((record) => record.scenario.variants.some((variant) => variant.id === against)) ?? records[0];
  const notes = [
    "bench.chart.note",
    all.length > 1 && "bench.chart.note.same",
    records.some((record) => !isCategorical(record) && record.scenario.axis.scale === "log") && "bench.chart.note.log",
    all.some(({ entry }) => entry?.traces.length) && "bench.chart.note.click",
  ].filter(Boolean);
  return html`<section class="bench-graphs">
    <div class="bench-controls">
      <label>${t("bench.metric")}
        <select id="bench-metric" value=${metric} onChange=${(event) => (link.metric.value = event.currentTarget.value)}>
          ${names.map((name) => html`<option key=${name} value=${name}>${inLanguage(metrics[name].title)}</option>`)}
        </select>
      </label>
      ${
        baselines.length > 1
          ? html`<label>${t("bench.against")}
            <select id="bench-against" value=${against} onChange=${(event) => (link.against.value = event.currentTarget.value)}>
              ${baselines.map((id) => html`<option key=${id} value=${id}>${variantTitle(named, id)}</option>`)}
            </select>
          </label>`
          : null
      }
      <p class="hint">${kind}</p>
    </div>
    <${Legend} record=${records.find((record) => record.metrics[metric]) ?? records[0]} metric=${metric} />
    <div class=${`bench-charts columns-${Math.min(columns, 3)}`}>${rows.map((baseline) => all.map((one) => chart(one, baseline)))}</div>
    <p class="hint bench-note">${notes.map((key) => t(key)).join(" ")}${against === null ? ` ${t("bench.ratio.none")}` : ""}</p>
  </section>`;
}

/** A long line in lines of so many letters, for a picture. */
function wrapLine(text, width) {
  const lines = [""];
  for (const part of text.split(" ")) {
    if (`${lines.at(-1)} ${part}`.length > width) lines.push("");
    lines[lines.length - 1] = `${lines.at(-1)} ${part}`.trim();
  }
  return lines;
}

function Machines({ all, labels }) {
  return html`<section class="bench-where" aria-labelledby="bench-where">
    <h3 id="bench-where">${t("bench.where")}</h3>
    ${all.map(
      ({ id, record }) => html`<div key=${id}>
        ${all.length > 1 ? html`<p class="bench-cell-name">${labels.get(id)}</p>` : null}
        <p class=${wasBusy(record) ? "num bench-busy" : "num"}>${whereParts(record).join(" · ")}</p>
        <p class="bench-command"><code>${record.environment.command}</code>
          <button class="link" onClick=${() => save(JSON.stringify(record, null, 1), "application/json", `${record.scenario.id}-${id}.json`)} aria-label=${`${t("bench.save.json")}: ${labels.get(id)}`}>JSON</button></p>
      </div>`,
    )}
  </section>`;
}

function Tables({ all, labels }) {
  const lost = all.map((one) => ({ ...one, failed: failures(one.record) })).filter(({ failed }) => failed.length);
  return html`<section class="bench-tables" aria-labelledby="bench-tables">
    <h3 id="bench-tables">${t("bench.table")}
      <button class="link" id="bench-csv" onClick=${() => save(csvOf(all), "text/csv", `${all[0].record.scenario.id}.csv`)} aria-label=${t("bench.save.csv")} title=${t("bench.save.csv")}>CSV</button></h3>
    ${all.map(
      (one) => html`<div key=${one.id}>
      ${all.length > 1 ? html`<p class="bench-cell-name">${labels.get(one.id)}</p>` : null}
      <${Figures} shown=${one} label=${labels.get(one.id)} />
    </div>`,
    )}
    <p class="hint bench-note">${t("bench.table.caption")}</p>
    ${
      lost.length
        ? html`<h4>${t("bench.failures")}</h4>
          <ul class="bench-lost">${lost.flatMap(({ id, record, failed }) =>
            failed.map(
              ({ variant, why, at }) =>
                html`<li key=${`${id} ${variant} ${why}`}><b>${variantTitle(record, variant)}</b> (${axisPoints(record)
                  .filter((where) => at.includes(where.at))
                  .map(atText)
                  .join("; ")}): ${why}</li>`,
            ),
          )}</ul>`
        : null
    }
  </section>`;
}

function save(text, type, name) {
  const made = Object.assign(document.createElement("a"), {
    href: URL.createObjectURL(new Blob([text], { type })),
    download: name,
  });
  made.click();
  URL.revokeObjectURL(made.href);
}
