// The header's badge of a run whose engine has a fault put in on purpose; it leads to the exhibit.

import { batch } from "../../../vendor/signals/signals.js";
import { html } from "../../kit/html.js";
import { markPlace, settings } from "../../state/settings.js";
import { exhibits, log } from "../../state/store.js";
import { inLanguage, t } from "../../tell/words.js";

export function FaultBadge() {
  const fault = /** @type {string | null} */ (log.value?.header.engine.fault);
  if (!fault) return null;
  // a page without a server knows the fault by its name in the log
  const exhibit = exhibits.value.find((one) => one.id === fault);
  const name = exhibit ? inLanguage(exhibit.title) : fault;
  const show = () => {
    markPlace();
    batch(() => {
      settings.exhibit.value = fault;
      settings.detail.value = "museum";
      settings.region.value = "detail";
    });
  };
  return html`<button class="fault-badge" id="fault-badge" data-fault=${fault} title=${t("museum.badge.more")}
    onClick=${show}>
    <span aria-hidden="true">⚠\uFE0E</span><span class="fault-badge-what">${t("museum.badge")}</span><span
      class="fault-badge-short">${t("museum.badge.short")}</span><span class="fault-badge-name">${name}</span>
  </button>`;
}
