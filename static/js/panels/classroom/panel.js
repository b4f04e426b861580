// The class: join view, presenter's view, follower's bar and the current question.

import { signal } from "../../../vendor/signals/signals.js";
import { openClass } from "../../control/class_requests.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { Sidebar } from "../../kit/sidebar.js";
import { attends, classState, isJoinCodeLarge, presenting, presents, startOpen } from "../../state/classroom.js";
import { settings } from "../../state/settings.js";
import { connection } from "../../state/store.js";
import { FollowerBar } from "./follower_bar.js";
import { Corner, JoinView } from "./join_view.js";
import { ProjectorView } from "./projector_view.js";
import { TeacherView } from "./teacher_view.js";

const title = signal("");
const names = signal(/** @type {"optional" | "none"} */ ("optional"));
const opening = signal(false);

function Start() {
  const open = presenting.value !== null;
  return html`<${Sidebar} id="class-start" label=${t("class.start")} close=${close}>
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
    isJoinCodeLarge.value = true;
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
  if (presents.value && settings.viewMode.value === "teacher") return html`<${TeacherView} />`;
  return html`${startOpen.value ? html`<${Start} />` : null}
    ${presents.value && classState.value ? html`<${ProjectorView} /><${Corner} /><${JoinView} />` : null}
    ${attends.value ? html`<${FollowerBar} />` : null}`;
}
