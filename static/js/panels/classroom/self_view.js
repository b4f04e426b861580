// A follower's own seat: its name, and its requests to the presenter.

import { signal } from "../../../vendor/signals/signals.js";
import { requestOfClass } from "../../control/class_requests.js";
import { lab, wander } from "../../control/classroom.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { Sidebar } from "../../kit/sidebar.js";
import { exitClass } from "../../net/classroom.js";
import { classState, ownSeat, roaming } from "../../state/classroom.js";

/** @typedef {import("../../core/wire.js").Mine} Own */

const open = signal(false);
const draft = signal(/** @type {string | null} */ (null));

export function SelfView() {
  const own = ownSeat.value;
  if (!own) return null;
  return html`<button class="class-self quiet" id="class-self" aria-expanded=${open.value}
      title=${t("class.seat_of", { name: own.name })} onClick=${() => (open.value = !open.value)}><span
      class="class-self-name">${own.name}</span><span class="class-self-short"
      aria-hidden="true">${short(own.name)}</span>
    </button>
    ${open.value ? html`<${Seat} own=${own} />` : null}`;
}

/** Own run of a follower, if the presenter allows it: active, queued, or none. @param {{own: Own}} props */
function Lab({ own }) {
  const isActive = own.lab !== null;
  const isQueued = own.queue !== null;
  const labText = isQueued
    ? t("class.lab_waits", { n: own.queue ?? 0 })
    : t(isActive ? "class.lab_is" : "class.lab_what");
  const text = isActive ? "class.lab_end" : isQueued ? "class.lab_leave" : "class.lab";
  return html`<section class="class-lab">
    <h3 class="panel-title">${t("class.lab_title")}</h3>
    <p role="status">${labText}</p>
    <button class="command" id="class-lab" onClick=${() => lab(!isActive && !isQueued)}>${t(text)}</button>
  </section>`;
}

/** Initials of a name, for small screens. @param {string} name */
const short = (name) =>
  [
    ...name
      .split(" ")
      .map((word) => [...word][0] ?? "")
      .join(""),
  ]
    .slice(0, 2)
    .join("");

/** @param {{own: Own}} props */
function Seat({ own }) {
  const hasNames = classState.value?.names !== "none";
  const close = () => {
    open.value = false;
    draft.value = null;
  };
  /** @param {Event} event */
  const rename = async (event) => {
    event.preventDefault();
    const name = draft.value?.trim();
    if (name && (await requestOfClass("class_rename", { name }))) draft.value = null;
  };
  /** @param {"remote" | "drive"} wish */
  const wishButton = (wish) => html`<button class="quiet" aria-pressed=${own.wish === wish}
    onClick=${() => requestOfClass("class_wish", { wish: own.wish === wish ? null : wish })}>${t(
      own.wish === wish ? "class.wished" : `class.wish.${wish}`,
    )}</button>`;
  return html`<${Sidebar} id="class-seat" label=${t("class.seat")} close=${close}>
    <h2 class="side-title">${own.name}</h2>
    ${
      hasNames
        ? html`<form class="class-form" onSubmit=${rename}>
          <label class="field">${t("class.name")}
            <input id="class-name" type="text" maxlength="24" autocomplete="off" value=${draft.value ?? own.name}
              onInput=${withValue((text) => (draft.value = text))} /></label>
          <button class="command" disabled=${!draft.value?.trim()}>${t("class.rename")}</button>
          <p class="hint">${t("class.name_note")}</p></form>`
        : html`<p>${t("class.anonymous")}</p>`
    }
    ${
      roaming.value || classState.value?.held
        ? null
        : html`<p><button class="command" id="class-seat-wander" onClick=${() => (close(), wander())}>${t(
            "class.wander",
          )}</button></p>`
    }
    ${classState.value?.labs ? html`<${Lab} own=${own} />` : null}
    <p class="class-wishes">${wishButton("remote")} ${wishButton("drive")}</p>
    <p><button class="quiet" onClick=${exitClass}>${t("class.leave")}</button></p>
  <//>`;
}
