// The headlines of every scenario, from the records that come with the program.

import { html } from "../kit/html.js";
import { inLanguage, t } from "../tell/words.js";
import { Result, Verdict } from "./findings.js";
import { ScenarioLink } from "./list.js";
import { listed } from "./store.js";
import { machineText } from "./where.js";
import { momentText } from "./words.js";

/** @typedef {import("./store.js").Listed} Listed */

const COLUMNS = ["scenario", "headline", "value", "bar"];

export function Overview() {
  const entries = listed().records.filter((entry) => entry.origin === "shipped" && entry.findings.length);
  const made = entries.map((entry) => `${machineText(entry)}, ${momentText(entry.environment.created).slice(0, 10)}`);
  return html`<article class="bench-report">
    <h2>${t("bench.overview")}</h2>
    <p class="bench-text">${t("bench.overview.text")}</p>
    <div class="bench-scroll" tabindex="0" role="region" aria-label=${t("bench.overview")}>
      <table class="bench-table bench-headlines num">
        <thead>
          <tr>${COLUMNS.map((name) => html`<th scope="col" key=${name}>${t(`bench.column.${name}`)}</th>`)}</tr>
        </thead>
        <tbody>
          ${entries.map((entry) =>
            entry.findings.map((finding, i) => {
              const key = `${entry.id} ${finding.title.en}`;
              return html`<${Headline} key=${key} entry=${entry} finding=${finding} first=${i === 0} />`;
            }),
          )}
        </tbody>
      </table>
    </div>
    <ul class="bench-note hint">${[...new Set(made)].map((line) => html`<li key=${line}>${line}</li>`)}</ul>
  </article>`;
}

/** @param {{entry: Listed, finding: Listed["findings"][number], first: boolean}} props `first`: of its record */
function Headline({ entry, finding, first }) {
  const title = inLanguage(entry.title);
  return html`<tr class=${first ? "first" : ""}>
    <th scope="row">
      ${
        first
          ? html`<${ScenarioLink} id=${entry.scenario}>${title}<//>`
          : html`<span class="visually-hidden">${title}</span>`
      }
    </th>
    <td>${inLanguage(finding.title)}</td>
    <td><${Result} finding=${finding} metric=${finding.metric} info=${entry.metrics[finding.metric]} /></td>
    <td><${Verdict} finding=${finding} /></td>
  </tr>`;
}
