// Shown instead of a figure that needs a live model, in lessons that play recordings.

import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { currentLesson } from "../../state/lessons.js";
import { isSite } from "../../state/without_server.js";

const COMMAND = "kvtheater serve";

/** Whether a race can be run: with a live model, or with a site's recorded lanes. */
export const canRace = () => currentLesson.value?.source === "live" || isSite;

export const NeedsModel = () =>
  currentLesson.value?.source === "class"
    ? html`<p class="hint" id="race-nothing">${t("lesson.race_class")}</p>`
    : html`<p class="hint" id="race-nothing">${t("lesson.race_live")} <code>${COMMAND}</code></p>`;
