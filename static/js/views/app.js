// The page: header, four regions, transport; on a phone one region at a time.

import { t } from "../i18n/index.js";
import { helpOpen } from "../model/keyboard.js";
import { settings } from "../model/settings.js";
import { connection, dismiss, toasts } from "../model/store.js";
import { GLOSSARY } from "../i18n/glossary.js";
import { Detail } from "./detail.js";
import { Header } from "./header.js";
import { html } from "./html.js";
import { Memory } from "./memory.js";
import { Score } from "./score.js";
import { Stage } from "./stage.js";
import { Transport } from "./transport.js";
import { Icon, Tooltip } from "./words.js";

export function App() {
  return html`<a class="skip" href="#region-stage">${t("app.skip")}</a>
    <${Header} />
    <${Tabs} />
    <main class="regions" data-region=${settings.region.value} data-detail-large=${settings.detail_large.value}>
      <${Score} />
      <${Stage} />
      <${Detail} />
      <${Memory} />
    </main>
    <${Transport} />
    <${Toasts} />
    <${Help} />
    <${Tooltip} />`;
}

function Tabs() {
  return html`<nav class="tabs" aria-label=${t("app.title")}>
    ${["stage", "score", "memory", "detail"].map(
      (name) => html`<button class="tab" aria-pressed=${settings.region.value === name} id=${`tab-${name}`} onClick=${() => (settings.region.value = name)}>
        ${t(`region.${name}`)}
      </button>`,
    )}
  </nav>`;
}

function Toasts() {
  const lost = connection.value === "lost";
  return html`<div class="toasts" role="alert" id="toasts">
    ${lost ? html`<p class="toast quiet">${t("connection.lost_long")}</p>` : null}
    ${toasts.value.map(
      (toast) => html`<p class=${`toast ${toast.tone}`} key=${toast.id}>
        ${toast.text}<button class="tool small" aria-label=${t("help.close")} onClick=${() => dismiss(toast.id)}><${Icon} name="close" /></button>
      </p>`,
    )}
  </div>`;
}

const KEYS = [
  ["← →", "help.arrows"],
  ["Home End", "help.home_end"],
  ["Space", "help.space"],
  ["S", "help.s"],
  ["P", "help.p"],
  ["R", "help.r"],
  ["Esc", "help.escape"],
  ["?", "help.help"],
];

function Help() {
  if (!helpOpen.value) return null;
  const lang = settings.lang.value;
  const other = lang === "zh" ? "en" : "zh";
  return html`<aside class="help" id="help" aria-label=${t("header.help")}>
    <button class="tool help-close" aria-label=${t("help.close")} onClick=${() => (helpOpen.value = false)}><${Icon} name="close" /></button>
    <h3 class="panel-title">${t("help.title")}</h3>
    <dl class="keys">
      ${KEYS.map(([keys, text]) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${t(text)}</dd></div>`)}
    </dl>
    <h3 class="panel-title">${t("help.terms")}</h3>
    <dl class="glossary">
      ${Object.values(GLOSSARY).map(
        (entry) => html`<div>
          <dt>${entry[lang][0]} <span lang=${other}>${entry[other][0]}</span></dt>
          <dd>${entry[lang][1]}</dd>
        </div>`,
      )}
    </dl>
  </aside>`;
}
