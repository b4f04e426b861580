// The detail region below the stage: one question at a time, chosen by tabs. A panel is a name and a component.

import { useEffect } from "../../vendor/preact/hooks.js";
import { html } from "../kit/html.js";
import { lazy } from "../kit/lazy.js";
import { Icon } from "../kit/parts.js";
import { Attention } from "../panels/attention/panel.js";
import { isEmbedded } from "../state/embedded.js";
import { settings } from "../state/settings.js";
import { t } from "../tell/words.js";

/** Panels by name, in the order of their tabs; the names are the choices of the setting `detail`. */
const PANELS = {
  attention: Attention,
  scheduler: lazy(() => import("../panels/scheduler/panel.js").then((m) => m.Scheduler)),
  time: lazy(() => import("../panels/time/panel.js").then((m) => m.Time)),
  // what asks a server; a page in one file has none
  ...(isEmbedded
    ? {}
    : {
        race: lazy(() => import("../panels/race/panel.js").then((m) => m.Race)),
        museum: lazy(() => import("../panels/museum/panel.js").then((m) => m.Museum)),
        compare: lazy(() => import("../panels/compare/panel.js").then((m) => m.Compare)),
        library: lazy(() => import("../panels/library/panel.js").then((m) => m.Library)),
      }),
};

export function Detail() {
  const name = settings.detail.value in PANELS ? settings.detail.value : "attention";
  const large = settings.detail_large.value;
  useEffect(() => bringIntoSight(document.getElementById(`detail-${name}`)), [name]);
  return html`<section class="region detail" aria-labelledby="detail-title" id="region-detail" data-panel=${name}>
    <h2 id="detail-title" class="visually-hidden">${t("region.detail")}</h2>
    <div class="detail-head">
      <div class="detail-tabs" role="tablist" aria-label=${t("region.detail")} data-arrows onKeyDown=${move}>
      ${Object.keys(PANELS).map(
        (key) => html`<button
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
    <div class="detail-panel" id="detail-panel" role="tabpanel" aria-labelledby=${`detail-${name}`}><${PANELS[name]} /></div>
  </section>`;
}

/** Where the tabs are wider than their room, the chosen one is in it. */
function bringIntoSight(tab) {
  const list = tab.parentElement;
  const [left, right] = [tab.offsetLeft - list.offsetLeft, tab.offsetLeft - list.offsetLeft + tab.offsetWidth];
  list.scrollLeft = Math.max(right - list.clientWidth, Math.min(list.scrollLeft, left));
}

/** Arrow keys move between the tabs, as a tab list does. */
function move(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const names = Object.keys(PANELS);
  const next = names[(names.indexOf(settings.detail.value) + by + names.length) % names.length];
  settings.detail.value = next;
  requestAnimationFrame(() => document.getElementById(`detail-${next}`)?.focus());
}
