// The page: header, four regions, transport; on a phone one region at a time.

import { t } from "../i18n/index.js";
import { helpOpen } from "../model/keyboard.js";
import { settings } from "../model/settings.js";
import { dismiss, provenance, toasts } from "../model/store.js";
import { stop } from "../model/tour.js";
import { Detail } from "./detail.js";
import { ExportSide } from "./export_button.js";
import { Header } from "./header.js";
import { html } from "./html.js";
import { later } from "./later.js";
import { Memory } from "./memory.js";
import { Blackout, Notice } from "./notice.js";
import { Score } from "./score.js";
import { Stage } from "./stage.js";
import { Transport } from "./transport.js";
import { Icon, Tooltip } from "./words.js";

const Help = later(() => import("./help.js").then((m) => m.Help));
const Provenance = later(() => import("./provenance.js").then((m) => m.Provenance));
const Tour = later(() => import("./tour.js").then((m) => m.Tour));

export function App() {
  return html`<a class="skip" href="#region-stage">${t("app.skip")}</a>
    ${stop.value === null ? null : html`<${Tour} />`}
    <${Header} />
    <${Tabs} />
    <main class="regions" data-region=${settings.region.value} data-detail-large=${settings.detail_large.value}>
      <${Score} />
      ${provenance.value ? html`<${Provenance} />` : null}
      <${Stage} />
      <${Detail} />
      <${Memory} />
    </main>
    <${Transport} />
    <p class="print-link" id="print-link"></p>
    <${Toasts} />
    ${helpOpen.value ? html`<${Help} />` : null}
    <${ExportSide} />
    <${Tooltip} />
    <${Blackout} />`;
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
  return html`<div class="toasts" role="alert" id="toasts">
    <${Notice} />
    ${toasts.value.map(
      (toast) => html`<p class=${`toast ${toast.tone}`} key=${toast.id}>
        ${toast.text}<button class="tool small" aria-label=${t("help.close")} onClick=${() => dismiss(toast.id)}><${Icon} name="close" /></button>
      </p>`,
    )}
  </div>`;
}
