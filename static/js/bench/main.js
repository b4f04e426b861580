// Entry point of the benchmark page.

import { render } from "../../vendor/preact/preact.js";
import { effect } from "../../vendor/signals/signals.js";
import { inLanguage, t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/icon.js";
import { followTheme, LanguageSwitch, localStorageOrNull, printLight, ThemeButton } from "../kit/preferences.js";
import { Tooltip } from "../kit/tooltip.js";
import { followLanguage } from "../net/words.js";
import { connectSettings } from "../state/settings.js";
import { acceptDrops, hovering, openFiles } from "./drop.js";
import { Result, Verdict } from "./findings.js";
import { link, TABLE } from "./link.js";
import { List, ScenarioLink } from "./list.js";
import { followRuns, run } from "./live.js";
import { Report } from "./report.js";
import { dropped, fetchIndex, followChosen, index, listed, notice, notify } from "./store.js";
import { machineText } from "./where.js";
import { momentText } from "./words.js";

/** @import {Listed} from "./store.js" */

const COLUMNS = ["scenario", "headline", "value", "bar"];

function Overview() {
  const entries = listed().records.filter((entry) => entry.origin === "shipped" && entry.findings.length);
  const machines = entries.map(
    (entry) => `${machineText(entry)}, ${momentText(entry.environment.created).slice(0, 10)}`,
  );
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
    <ul class="bench-note hint">${[...new Set(machines)].map((line) => html`<li key=${line}>${line}</li>`)}</ul>
  </article>`;
}

/**
 * @param {{entry: Listed, finding: Listed["findings"][number], first: boolean}} props `first`: whether it is the first
 * of its record
 */
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

function App() {
  return html`<a class="skip" href="#bench-main">${t("bench.skip")}</a>
    <${Header} />
    <div class="bench">
      ${index.value && index.value !== "failed" ? html`<${List} />` : html`<div class="bench-list"></div>`}
      <main id="bench-main" tabindex="-1">
        <p class="bench-lead">${t("bench.lead")}</p>
        <${DropLine} />
        <${Content} />
      </main>
    </div>
    <${Notice} />
    ${hovering.value ? html`<div class="bench-hover" aria-hidden="true">${t("bench.drop.here")}</div>` : null}
    <${Tooltip} />`;
}

/** Main content: the report or the headlines. */
function Content() {
  const scenario = link.scenario.value;
  if (index.value === null) return html`<p class="hint">${t("bench.loading")}</p>`;
  if (index.value === "failed") return html`<p class="bench-problem" role="alert">${t("bench.failed")}</p>`;
  return scenario ? html`<${Report} key=${scenario} scenario=${scenario} />` : html`<${Overview} />`;
}

function Header() {
  const sharing = t("bench.share");
  return html`<header class="header">
    <h1 class="wordmark">
      <a href="./"><span class="wordmark-kv"><i>K</i><i>V</i></span><span
        class="wordmark-rest"> ${t("app.title").replace("KV ", "")}</span></a>${" "}
      <span class="bench-name">${t("bench.title")}</span>
    </h1>
    <div class="header-tools">
      <a class="tool to-stage" href="./">${t("bench.to_stage")}</a>
      <${LanguageSwitch} />
      <${ThemeButton} />
      <button class="tool" id="btn-share" onClick=${share} aria-label=${sharing} title=${sharing}>
        <${Icon} name="share" />
      </button>
    </div>
  </header>`;
}

function DropLine() {
  const chosen = (/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => {
    openFiles([...(event.currentTarget.files ?? [])]);
    event.currentTarget.value = "";
  };
  return html`<p class="bench-drop hint">
    ${t("bench.drop")}${" "}
    <label class="link">
      ${t("bench.drop.choose")}
      <input
        type="file"
        id="bench-file"
        accept=".json,application/json"
        multiple
        class="visually-hidden"
        onChange=${chosen}
      />
    </label>
  </p>`;
}

function Notice() {
  const now = notice.value;
  return html`<div class="toasts" role=${now?.error ? "alert" : "status"} aria-live="polite">
    ${
      now
        ? html`<div class=${`toast ${now.error ? "error" : "quiet"}`}>
          <span>${now.text}</span>
          <button class="tool small" onClick=${() => (notice.value = null)} aria-label=${t("help.close")}>
            <${Icon} name="close" />
          </button>
        </div>`
        : null
    }
  </div>`;
}

/** Copy the page's address, without the access token that it may contain. */
async function share() {
  const address = new URL(location.href);
  address.searchParams.delete("token");
  try {
    await navigator.clipboard.writeText(address.href);
    notify(t(dropped.value.length ? "bench.shared_without" : "bench.shared"));
  } catch {
    notify(t("bench.share_failed"), true);
  }
}

connectSettings(location, history, localStorageOrNull(), globalThis, TABLE, link);

followTheme();
printLight();
await followLanguage("words/bench");
effect(() => {
  const now = run.value; // shows the progress in the title of a background tab
  const title = t("bench.page_title");
  document.title =
    now?.state === "running" && now.total ? `${Math.floor((100 * now.done) / now.total)} % · ${title}` : title;
});

const app = document.getElementById("app");
if (app) render(html`<${App} />`, app);
acceptDrops();
followChosen();
followRuns();
await fetchIndex();
