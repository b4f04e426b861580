// Detail region below the stage: one panel at a time, chosen by tabs.

import { useEffect } from "../../vendor/preact/hooks.js";
import { computed } from "../../vendor/signals/signals.js";
import { isBare } from "../core/bare.js";
import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/icon.js";
import { settings } from "../state/settings.js";
import { own } from "../state/store.js";
import { isEmbedded, isSite } from "../state/without_server.js";
import { DETAIL_PANELS } from "./detail_panels.js";

const MAX_LANES = 8; // for more sequences, a table is clearer than lanes
const PANELS = DETAIL_PANELS.filter(({ needs }) => !needs || !(isEmbedded || (isSite && needs === "server")));

const bare = computed(() => own.numRecords.value > 0 && own.log.value !== null && isBare(own.log.value));

const forgets = computed(() => Boolean(own.log.value?.header.engine.forget_policy));

/** Return the panels that apply to the page's own run. */
const offered = () =>
  PANELS.filter((panel) => !(panel.needsArrays && bare.value) && !(panel.needsForgetting && !forgets.value));

/** Return the panel of the setting if it applies, else the first; for many sequences without arrays, requests. */
function shown() {
  const panels = offered();
  const many = bare.value && (own.log.value?.tail.sequences.size ?? 0) > MAX_LANES;
  const first = many ? panels.find((panel) => panel.name === "requests") : null;
  return panels.find((panel) => panel.name === settings.detail.value) ?? first ?? panels[0];
}

export function Detail() {
  const { name, component } = shown();
  const large = settings.detail_large.value;
  useEffect(() => scrollToTab(document.getElementById(`detail-${name}`)), [name]);
  return html`<section class="region detail" aria-labelledby="detail-title" id="region-detail" data-panel=${name}>
    <h2 id="detail-title" class="visually-hidden">${t("region.detail")}</h2>
    <div class="detail-head">
      <div class="detail-tabs" role="tablist" aria-label=${t("region.detail")} data-arrows onKeyDown=${move}>
      ${offered().map(
        ({ name: key }) => html`<button
          class="detail-tab"
          role="tab"
          id=${`detail-${key}`}
          aria-selected=${key === name}
          aria-controls="detail-panel"
          tabindex=${key === name ? 0 : -1}
          onClick=${() => (settings.detail.value = key)}
        >
          ${t(`detail.${key}`)}
        </button>`,
      )}
      </div>
      <button
        class="tool small detail-size"
        aria-pressed=${large}
        aria-label=${t(large ? "detail.smaller" : "detail.larger")}
        title=${t(large ? "detail.smaller" : "detail.larger")}
        onClick=${() => (settings.detail_large.value = !large)}
      >
        <${Icon} name=${large ? "smaller" : "larger"} />
      </button>
    </div>
    <div class="detail-panel" id="detail-panel" role="tabpanel" aria-labelledby=${`detail-${name}`}><${component}
      /></div>
  </section>`;
}

/** Scroll the chosen tab into view if the tabs overflow. @param {HTMLElement | null} tab */
function scrollToTab(tab) {
  const list = tab?.parentElement;
  if (!tab || !list) return;
  const [left, right] = [tab.offsetLeft - list.offsetLeft, tab.offsetLeft - list.offsetLeft + tab.offsetWidth];
  list.scrollLeft = Math.max(right - list.clientWidth, Math.min(list.scrollLeft, left));
}

/** Move between the tabs with the arrow keys, as in a tab list. @param {KeyboardEvent} event */
function move(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
  if (!by) return;
  event.preventDefault();
  const panels = offered();
  const { name } = panels[(panels.indexOf(shown()) + by + panels.length) % panels.length];
  settings.detail.value = name;
  requestAnimationFrame(() => document.getElementById(`detail-${name}`)?.focus());
}
