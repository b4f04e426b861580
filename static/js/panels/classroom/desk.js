// The presenter's own screen: the next step, notes, the question, who is there. Nothing of it is on the wall.

import { useState } from "../../../vendor/preact/hooks.js";
import { askOfClass } from "../../control/class_asks.js";
import { endClass } from "../../control/classroom.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { desk, presenting, told } from "../../state/classroom.js";
import { t } from "../../tell/words.js";
import { After } from "./after.js";
import { Ask } from "./ask.js";
import { Clock } from "./clock.js";
import { Doors } from "./doors.js";
import { Histogram } from "./histogram.js";
import { Labs } from "./labs.js";
import { Notes } from "./notes.js";
import { Lost, People } from "./people.js";
import { PollSteps } from "./poll_steps.js";
import { answerText, questionText } from "./said.js";
import { Counted } from "./wall.js";

export function Desk() {
  const now = told.value;
  if (!now || !presenting.value) return null;
  return html`<main class="class-desk" id="class-desk">
    <header class="class-desk-head">
      <h1>${now.title || t("class.desk")}</h1>
      <span class="class-code num">${presenting.value.code.toUpperCase()}</span>
      <span class="num" role="status">${t("class.here", {
        n: desk.value?.seats.filter((seat) => seat.here).length ?? 0,
      })}</span>
    </header>
    <section class="class-desk-now"><${Next} /><${Notes} /></section>
    <section class="class-desk-question"><${Question} /><${Ask} /></section>
    <section class="class-desk-people"><${Lost} /><${People} /></section>
    <footer class="class-desk-foot"><${Hold} /><${Doors} /><${Labs} /><${After} /><${End} /></footer>
  </main>`;
}

/** What the wall's "next" and "back" are, from here. */
function Next() {
  const by = told.value?.driver_name;
  const press = (/** @type {"next" | "back"} */ key) => askOfClass("class_press", { key });
  return html`<div class="class-next">
    ${
      by
        ? html`<p>${t("class.drives", { name: by })} <button class="command" onClick=${() =>
            askOfClass("class_hand", { seat: null })}>${t("class.take_back")}</button></p>`
        : null
    }
    <button class="command" id="class-desk-back" onClick=${() => press("back")}
    aria-label=${t("class.press_back")}><${Icon}
      name="back" /></button>
    <button class="command primary" id="class-desk-next" onClick=${() => press("next")}>${t(
      "class.press_next",
    )} <${Icon}
      name="forward" /></button>
  </div>`;
}

function Question() {
  const poll = told.value?.poll;
  if (!poll) return null;
  return html`<div class="class-desk-poll"><h2>${questionText(poll)}</h2>
    <p><${Counted} /> <${Clock} poll=${poll} /></p>
    ${poll.phase === "shown" ? html`<${Histogram} poll=${poll} mine=${[]} textOf=${answerText(poll)} />` : null}
    <${PollSteps} poll=${poll} /></div>`;
}

function Hold() {
  const held = told.value?.held ?? false;
  return html`<button class="quiet" id="class-hold" aria-pressed=${held}
    onClick=${() => askOfClass("class_hold", { held: !held })}>${t(held ? "class.held" : "class.hold")}</button>`;
}

function End() {
  const [asks, ask] = useState(false);
  if (!asks) return html`<button class="quiet" id="class-end" onClick=${() => ask(true)}>${t("class.end")}</button>`;
  return html`<span class="class-steps"><span>${t("class.end_sure")}</span>
    <button class="command primary" id="class-end-sure" onClick=${endClass}>${t("class.end")}</button>
    <button class="quiet" onClick=${() => ask(false)}>${t("class.not_yet")}</button></span>`;
}
