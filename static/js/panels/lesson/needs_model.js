// In place of a figure that only a live model makes, where the lesson's runs are recordings.

import { html } from "../../kit/html.js";
import { opened } from "../../state/lessons.js";
import { isSite } from "../../state/site.js";
import { t } from "../../tell/words.js";

const COMMAND = "kvtheater serve";

/** Whether there are lanes for a race: a model to run them on, or a site's recorded ones. */
export const canRace = () => opened.value?.source === "live" || isSite;

export const NeedsModel = () =>
  opened.value?.source === "class"
    ? html`<p class="hint" id="race-nothing">${t("lesson.race_class")}</p>`
    : html`<p class="hint" id="race-nothing">${t("lesson.race_live")} <code>${COMMAND}</code></p>`;
