// After the server has lost a class: a button that opens a new one.

import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { leaveClass } from "../../net/classroom.js";
import { startOpen } from "../../state/classroom.js";
import { connection } from "../../state/store.js";

export const Another = () =>
  html`<button class="command primary" id="class-another" disabled=${connection.value === "lost"}
    onClick=${open}>${t("class.another")}</button>`;

function open() {
  leaveClass();
  startOpen.value = true;
}
