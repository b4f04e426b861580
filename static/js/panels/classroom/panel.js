// The class: join view, presenter's view, follower's bar and the current question.

import { signal } from "../../../vendor/signals/signals.js";
import { openClass } from "../../control/class_requests.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { Side } from "../../kit/sidebar.js";
import { attends, doorOpen, presenting, presents, startOpen, told } from "../../state/classroom.js";
import { settings } from "../../state/settings.js";
import { connection } from "../../state/store.js";
import { Bar } from "./bar.js";
import { Desk } from "./desk.js";
import { Corner, Door } from "./door.js";
import { Wall } from "./wall.js";

const title = signal("");
const names = signal(/** @type {"optional" | "none"} */ ("optional"));
const opening = signal(false);

function Start() {
  const open = presenting.value !== null;
  return html`<${Side} id="class-start" label=${t("class.start")} close=${close}>
    <h2 class="side-title">${t("class.start")}</h2>
    ${open ? html`<p>${t("class.open_already")}</p>` : html`<${Form} />`}
  <//>`;
}

function close() {
  startOpen.value = settings.teach.value = false;
}

function Form() {
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    opening.value = true;
    const opened = await openClass({ title: title.value, names: names.value });
    opening.value = false;
    if (!opened) return;
    doorOpen.value = true;
    close();
  };
  /** @param {"optional" | "none"} value */
  const choice = (value) => html`<label class="class-choice"><input type="radio" name="class-names"
    checked=${names.value === value} onChange=${() => (names.value = value)} />
    <span><b>${t(`class.names.${value}`)}</b> ${t(`class.names.${value}.more`)}</span></label>`;
  return html`<form class="class-form" onSubmit=${submit}>
    <p>${t("class.what")}</p>
    <label class="field">${t("class.title")}
      <input id="class-title" type="text" maxlength="120" value=${title.value}
        onInput=${withValue((text) => (title.value = text))} /></label>
    <fieldset class="class-names"><legend>${t("class.names")}</legend>${choice("optional")} ${choice("none")}</fieldset>
    <p class="hint">${t("class.nothing_kept")}</p>
    <button class="command primary" id="class-open" disabled=${opening.value || connection.value === "lost"}>${t(
      "class.open",
    )}</button>
  </form>`;
}

export function Panel() {
  if (presents.value && settings.distance.value === "desk") return html`<${Desk} />`;
  return html`${startOpen.value ? html`<${Start} />` : null}
    ${presents.value && told.value ? html`<${Wall} /><${Corner} /><${Door} />` : null}
    ${attends.value ? html`<${Bar} />` : null}`;
}
