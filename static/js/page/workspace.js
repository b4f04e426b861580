// Workspace: header, transport, four regions; on a phone one region at a time. The transport is below the regions
// visually, but before them in keyboard and reading order, as it has the result of a step and the controls for the
// next.

import { useLayoutEffect } from "../../vendor/preact/hooks.js";
import { stop } from "../control/tour.js";
import { t } from "../i18n/words.js";
import { useFirstFocus } from "../kit/focus.js";
import { html } from "../kit/html.js";
import { lazyPanel } from "../kit/lazy.js";
import { isPhone } from "../kit/measure.js";
import { Panel as Header } from "../panels/header/panel.js";
import { Panel as Memory } from "../panels/memory/panel.js";
import { Panel as Setup } from "../panels/setup/panel.js";
import { Panel as Stage } from "../panels/stage/panel.js";
import { Panel as Transport } from "../panels/transport/panel.js";
import { settings } from "../state/settings.js";
import { log, longRun, provenance } from "../state/store.js";
import { Detail } from "./detail.js";
import { Branches, panelOf, Queries } from "./detail_panels.js";
import { Overlays } from "./overlays.js";

const Provenance = lazyPanel(() => import("../panels/provenance/panel.js"), "provenance");
const Monitor = lazyPanel(() => import("../panels/monitor/panel.js"), "monitor");
const MonitorTitle = lazyPanel(
  () => import("../panels/monitor/panel.js").then(({ Title }) => ({ Panel: Title })),
  "monitor",
);
const Large = lazyPanel(() => import("../panels/large/panel.js"), "large");
const Tour = lazyPanel(() => import("../panels/tour/panel.js"));

export function Workspace() {
  useLayoutEffect(toTop, [settings.region.value]);
  useFirstFocus("workspace", "region-stage");
  return html`<a class="skip" href="#region-stage">${t("app.skip")}</a>
    ${stop.value === null ? null : html`<${Tour} />`}
    <${Header} />
    ${log.value?.header.observed || longRun.value ? null : html`<${Tabs} />`}
    ${longRun.value ? null : html`<${Transport} />`}
    <main class="regions" data-region=${settings.region.value} data-detail-large=${settings.detail_large.value}>
      <${longRun.value ? LongRun : log.value?.header.observed ? Monitored : Regions} />
    </main>
    <p class="print-link" id="print-link"></p>
    <${Overlays} />`;
}

const LongRun = () =>
  html`<${Large} library=${panelOf("library")} monitor=${Monitor} monitorTitle=${MonitorTitle} queries=${Queries}
    branches=${Branches} />`;

const Monitored = () => html`<${Monitor} queries=${Queries} branches=${Branches} />`;

const Regions = () => html`<${Setup} />
      ${provenance.value ? html`<${Provenance} />` : null}
      <${Stage} />
      <${Detail} />
      <${Memory} />`;

/** Scroll a phone to the top when the region changes, as the regions share one page. */
function toTop() {
  const regions = document.querySelector(".regions");
  const tabs = document.querySelector(".tabs");
  if (!isPhone() || !regions || !tabs) return;
  const top = regions.getBoundingClientRect().top + scrollY - tabs.clientHeight;
  if (scrollY > top) scrollTo(0, top);
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
