// The presenter's private screen: the next step, notes, the question and the participants. None of it is projected.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { requestOfClass } from "../../control/class_requests.js";
import { loadCards } from "../../control/lesson_navigation.js";
import { stemText } from "../../i18n/questions.js";
import { bytesText, inLanguage, secondsText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { withValue } from "../../kit/inputs.js";
import { leaveClass } from "../../net/classroom.js";
import { attendance, canAsk, classState, forgotten, presenting } from "../../state/classroom.js";
import { ALLOCATOR, cards, checkpoint, currentLesson, lessonAfter } from "../../state/lessons.js";
import { Histogram } from "./histogram.js";
import { Lost, People } from "./people.js";
import { PollSteps } from "./poll_steps.js";
import { Counted } from "./projector_view.js";
import { answerText, Clock, questionText } from "./question_parts.js";
import { QuickQuestion } from "./quick_question.js";
import { ReopenButton, Results, Stored } from "./results.js";

/** @import {Item, Opened} from "../../state/lessons.js" */

function Notes() {
  const now = currentLesson.value;
  if (!now) return html`<p class="hint">${t("class.notes_none")}</p>`;
  const section = now.items.at(-1)?.section;
  const texts = now.items.filter((item) => item.kind === "text" && item.section === section);
  return html`<div class="class-notes"><p class="panel-title">${now.title} · ${t("class.progress", {
    i: (section ?? 0) + 1,
    n: now.progress.num_sections,
  })}</p>
    ${texts.map((item) =>
      item.kind === "text"
        ? item.blocks.map((block, i) => html`<p key=${`${item.index}/${i}`}>${textOf([block])}</p>`)
        : null,
    )}
    <p class="class-notes-next">${nextText(now, checkpoint.value)}</p></div>`;
}

/** Lesson menu for the projected page. */
function Lessons() {
  useEffect(() => void loadCards(), []);
  const all = (cards.value ?? []).filter(({ refused }) => refused === null);
  if (!all.length) return null;
  const open = (/** @type {string} */ lesson) => requestOfClass("class_lesson", { lesson });
  return html`<label class="field class-lesson">${t("class.lesson")} <select id="class-lesson"
    value=${currentLesson.value?.lesson ?? ""} onChange=${withValue(open)}>
    <option value="" disabled>${t("class.lesson_none")}</option>
    ${all.map(({ id, number, title }) => [
      html`<option key=${id} value=${id}>${number || "?"} ${inLanguage(title)}</option>`,
      ALLOCATOR.startsWith(`${id}.`)
        ? html`<option key=${ALLOCATOR} value=${ALLOCATOR}>${number} ${t("intro.allocator")}</option>`
        : null,
    ])}
  </select></label>`;
}

/** Return whether the class is answering a lesson's question. Revealing the answers then advances the lesson. */
const isPolled = () => !canAsk.value && classState.value?.poll?.kind === "lesson";

/** Text for the effect of the "next" button in a lesson. @param {Opened} now @param {Item | null} item */
function nextText(now, item) {
  if (isPolled()) return t("class.next.polled");
  if (item?.kind === "ask") return t("class.next.ask", { question: stemText(item) });
  if (item?.kind === "do") return t("class.next.do", { what: t(`class.verb.${item.action.verb}`) });
  const isStepped = item?.kind === "sandbox" && classState.value?.view.distance !== "learn";
  if (isStepped) return t("class.next.do", { what: t("class.verb.step") });
  if (item?.kind === "sandbox") return t(now.progress.num_optional ? "class.next.more" : "class.next.sandbox");
  if (item) return t(`class.next.${item.kind}`);
  const next = lessonAfter(now);
  return next ? t("class.next.lesson", { title: inLanguage(next.title) }) : t("class.next.end");
}

/** Return the plain text of a Markdown tree. @param {unknown} nodes @returns {string} */
function textOf(nodes) {
  if (typeof nodes === "string") return nodes;
  if (!Array.isArray(nodes)) return "";
  return nodes
    .map((node) => (typeof node === "string" ? node : textOf(/** @type {{children?: unknown}} */ (node).children)))
    .join("");
}

function Labs() {
  const now = attendance.value;
  if (!now) return null;
  const on = classState.value?.labs ?? false;
  const { by, lab_bytes: bytes, free_bytes: free, step_seconds: seconds } = now.labs_why;
  const why = t(`class.labs_why.${by}`, {
    bytes: bytesText(bytes),
    free: bytesText(free),
    seconds: seconds === null ? "" : secondsText(seconds),
  });
  const count = t("class.labs_now", { n: now.labs, most: now.labs_most, waiting: now.waiting });
  return html`<div class="class-labs"><button class="quiet" id="class-labs" aria-pressed=${on}
      onClick=${() => requestOfClass("class_labs", { open: !on })}>
      ${t(on ? "class.labs_on" : "class.labs_off")}</button>
    ${on ? html`<span class="hint">${count} ${why}</span>` : null}</div>`;
}

function Admission() {
  const now = attendance.value;
  if (!now) return null;
  const { open, origins, seats } = now;
  const others = seats.length - origins.reduce((sum, one) => sum + one.seats, 0);
  const lines = origins.map((one) => t("class.origin", { n: one.seats, here: one.here, origin: one.origin }));
  if (others > 0) lines.push(t("class.origin_others", { n: others }));
  return html`<div class="class-admission"><button class="quiet" id="class-admission" aria-pressed=${!open}
      onClick=${() => requestOfClass("class_doors", { open: !open })}>${t(
        open ? "class.admission_close" : "class.admission_open",
      )}</button>
    ${open ? null : html`<span class="hint" role="status">${t("class.admission_closed")}</span>`}
    ${
      lines.length
        ? html`<details class="class-origins"><summary>${t("class.origins", { n: seats.length })}</summary>
          <ul>${lines.map((line) => html`<li class="num" key=${line}>${line}</li>`)}</ul></details>`
        : null
    }</div>`;
}

export function TeacherView() {
  const now = classState.value;
  if (!now || !presenting.value) return null;
  if (now.over) return html`<${Over} />`;
  return html`<main class="class-teacher" id="class-teacher">
    <header class="class-teacher-head">
      <h1>${now.title || t("class.teacher")}</h1>
      <span class="class-code num">${presenting.value.code.toUpperCase()}</span>
      <span class="num" role="status">${t("class.here", {
        n: attendance.value?.seats.filter((seat) => seat.here).length ?? 0,
      })}</span>
    </header>
    <section class="class-teacher-now"><${Next} /><${Lessons} /><${Notes} /></section>
    <section class="class-teacher-question"><${Question} /><${QuickQuestion} /></section>
    <section class="class-teacher-people"><${Lost} /><${People} /></section>
    <footer class="class-teacher-foot"><${Hold} /><${Admission} /><${Labs} /><${Results} /><${End} /></footer>
  </main>`;
}

/** Results of a class that has ended. */
const Over = () => html`<main class="class-teacher" id="class-teacher" data-over="true">
  <header class="class-teacher-head"><h1>${classState.value?.title || t("class.teacher")}</h1>
    <span role="status">${t(forgotten.value ? "class.forgotten" : "class.over")}</span></header>
  <section class="class-teacher-now">
    ${forgotten.value ? html`<${Stored} /><${ReopenButton} />` : html`<${Results} open=${true} />`}
    <button class="command" id="class-leave" onClick=${leaveClass}>${t("class.leave")}</button></section>
</main>`;

/** The projected view's "next" and "back" buttons. */
function Next() {
  const by = classState.value?.driver_name;
  const press = (/** @type {"next" | "back"} */ key) => requestOfClass("class_press", { key });
  return html`<div class="class-next">
    ${
      by
        ? html`<p>${t("class.drives", { name: by })} <button class="command" onClick=${() =>
            requestOfClass("class_hand", { seat: null })}>${t("class.take_back")}</button></p>`
        : null
    }
    <button class="command" id="class-teacher-back" onClick=${() => press("back")}
    aria-label=${t("class.press_back")}><${Icon}
      name="back" /></button>
    <button class="command primary" id="class-teacher-next" disabled=${isPolled()} onClick=${() => press("next")}>${t(
      "class.press_next",
    )} <${Icon}
      name="forward" /></button>
  </div>`;
}

function Question() {
  const poll = classState.value?.poll;
  const tallies = attendance.value?.tallies ?? [];
  if (!poll) return null;
  return html`<div class="class-teacher-poll"><h2>${questionText(poll)}</h2>
    <p><${Counted} /> <${Clock} poll=${poll} /></p>
    <${Histogram} poll=${{ ...poll, tallies }} ownAnswers=${[]} textOf=${answerText(poll)} />
    <${PollSteps} poll=${poll} /></div>`;
}

function Hold() {
  const held = classState.value?.held ?? false;
  return html`<button class="quiet" id="class-hold" aria-pressed=${held}
    onClick=${() => requestOfClass("class_hold", { held: !held })}>${t(held ? "class.held" : "class.hold")}</button>`;
}

function End() {
  const [isConfirming, setConfirming] = useState(false);
  if (!isConfirming)
    return html`<button class="quiet" id="class-end" onClick=${() => setConfirming(true)}>${t("class.end")}</button>`;
  return html`<span class="class-steps"><span>${t("class.end_sure")}</span>
    <button class="command primary" id="class-end-sure"
      onClick=${() => requestOfClass("class_end", {})}>${t("class.end")}</button>
    <button class="quiet" onClick=${() => setConfirming(false)}>${t("class.not_yet")}</button></span>`;
}
