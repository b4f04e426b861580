// In the header, while the followed run is being recorded: a red mark, and the way to the library.

import { html } from "../../kit/html.js";
import { beingMade } from "../../net/library.js";
import { settings } from "../../state/settings.js";
import { t } from "../../tell/words.js";

export function RecordMark() {
  const made = beingMade.value;
  if (!made) return null;
  return html`<button class="tool record-now" id="record-now" title=${made.name} onClick=${show}><i class="record-mark"
    aria-hidden="true">●</i> ${t("library.recording")}</button>`;
}

function show() {
  settings.region.value = "detail";
  settings.detail.value = "library";
}
