// The page: header, four regions, transport; on a phone one region at a time.

import { exportOpen } from "../control/export_side.js";
import { helpOpen } from "../control/keyboard.js";
import { opening } from "../control/opening.js";
import { stop } from "../control/tour.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/icon.js";
import { lazyPanel } from "../kit/lazy.js";
import { Tooltip } from "../kit/tooltip.js";
import { Blackout, Notice } from "../panels/header/notice.js";
import { Panel as Header } from "../panels/header/panel.js";
import { Panel as Memory } from "../panels/memory/panel.js";
import { Panel as Setup } from "../panels/setup/panel.js";
import { Panel as Stage } from "../panels/stage/panel.js";
import { Panel as Transport } from "../panels/transport/panel.js";
import { settings } from "../state/settings.js";
import { dismiss, provenance, toasts } from "../state/store.js";
import { t } from "../tell/words.js";
import { Detail } from "./detail.js";
import { Room } from "./room.js";

const Export = lazyPanel(() => import("../panels/export/panel.js"));
const Help = lazyPanel(() => import("../panels/help/panel.js"));
const Look = lazyPanel(() => import("../panels/look/panel.js"));
const Opening = lazyPanel(() => import("../panels/look/opening_panel.js"));
const Provenance = lazyPanel(() => import("../panels/provenance/panel.js"));
const Tour = lazyPanel(() => import("../panels/tour/panel.js"));

/** From three distances the same log: the opening and the first look, or everything. */
export function App() {
  if (opening.value) return html`<${Opening} /><${Toasts} />`;
  if (settings.distance.value === "look") return html`<${Look} /><${Toasts} />`;
  if (settings.distance.value === "room") return html`<${Room} /><${Around} />`;
  return html`<${Bench} /><${Around} />`;
}

function Bench() {
  return html`<a class="skip" href="#region-stage">${t("app.skip")}</a>
    ${stop.value === null ? null : html`<${Tour} />`}
    <${Header} />
    <${Tabs} />
    <main class="regions" data-region=${settings.region.value} data-detail-large=${settings.detail_large.value}>
      <${Setup} />
      ${provenance.value ? html`<${Provenance} />` : null}
      <${Stage} />
      <${Detail} />
      <${Memory} />
    </main>
    <${Transport} />
    <p class="print-link" id="print-link"></p>`;
}

/** What comes and goes over the page. */
function Around() {
  return html`<${Toasts} />
    ${helpOpen.value ? html`<${Help} />` : null}
    ${exportOpen.value ? html`<${Export} />` : null}
    <${Tooltip} />
    <${Blackout} />`;
}

/** @type {import("../state/settings.js").OwnValues["region"][]} */
const REGIONS = ["stage", "setup", "memory", "detail"];

function Tabs() {
  return html`<nav class="tabs" aria-label=${t("app.title")}>
    ${REGIONS.map(
      (name) => html`<button class="tab" aria-pressed=${settings.region.value === name} id=${`tab-${name}`}
        onClick=${() => (settings.region.value = name)}>
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
        ${toast.text}<button class="tool small" aria-label=${t("help.close")}
          onClick=${() => dismiss(toast.id)}><${Icon} name="close" /></button>
      </p>`,
    )}
  </div>`;
}
