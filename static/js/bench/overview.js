// The headlines of every scenario, from the records that come with the program.

import { html } from "../kit/html.js";
import { inLanguage, t } from "../tell/words.js";
import { barText, findingText, Verdict } from "./findings.js";
import { ScenarioLink } from "./list.js";
import { index } from "./store.js";
import { machineText } from "./where.js";
import { momentText } from "./words.js";

export function Overview() {
  const entries = index.value.records.filter((entry) => entry.origin === "shipped" && entry.findings.length);
  return html`<article class="bench-report">
    <h2>${t("bench.overview")}</h2>
    <p class="bench-text">${t("bench.overview.text")}</p>
    <div class="bench-scroll" tabindex="0" role="region" aria-label=${t("bench.overview")}>
      <table class="bench-table bench-headlines num">
        <thead>
          <tr>${["scenario", "headline", "value", "bar"].map((name) => html`<th scope="col" key=${name}>${t(`bench.column.${name}`)}</th>`)}</tr>
        </thead>
        <tbody>
          ${entries.map((entry) =>
            entry.findings.map(
              (finding, i) => html`<tr key=${`${entry.id} ${finding.title.en}`} class=${i ? "" : "first"}>
                <th scope="row">${i ? html`<span class="visually-hidden">${inLanguage(entry.title)}</span>` : html`<${ScenarioLink} id=${entry.scenario}>${inLanguage(entry.title)}<//>`}</th>
                <td>${inLanguage(finding.title)}</td>
                <td>${findingText(finding)}</td>
                <td>${finding.bar ? html`<${Verdict} finding=${finding} />` : html`<span class="hint">${barText(finding) || t("bench.no_bar")}</span>`}</td>
              </tr>`,
            ),
          )}
        </tbody>
      </table>
    </div>
    <ul class="bench-note hint">${[...new Set(entries.map((entry) => `${machineText(entry)}, ${momentText(entry.environment.created).slice(0, 10)}`))].map((line) => html`<li key=${line}>${line}</li>`)}</ul>
  </article>`;
}
