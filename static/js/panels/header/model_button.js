// The way to the other models, where the server has some: the name of the one that the run is on.

import { computed } from "../../../vendor/signals/signals.js";
import { modelsOpen, toggleModels } from "../../control/export_side.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { settings } from "../../state/settings.js";
import { connection, log, models, ownIsShown } from "../../state/store.js";
import { t } from "../../tell/words.js";

/** Whether the run on stage could be on another model: one that was named beside the first, or the first again. */
export const hasChoice = computed(
  () =>
    connection.value === "live" &&
    ownIsShown.value &&
    Boolean(settings.model.value || Object.values(models.value).some(({ place }) => place === "named")),
);

export function ModelButton() {
  const name = log.value?.header.model.name;
  if (!hasChoice.value || !name) return null;
  const label = t("header.model", { name });
  return html`<button
    class="tool model-button"
    id="btn-models"
    aria-expanded=${modelsOpen.value}
    aria-label=${label}
    title=${label}
    onClick=${toggleModels}
  >
    <span class="model-button-name">${name}</span> <span aria-hidden="true">▾</span>
    <${Icon} name="model" />
  </button>`;
}
