// Bar of a follower: the followed view, a button back to the class, "lost here", and the current question.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { answerToClass } from "../../control/class_lesson.js";
import { requestOfClass } from "../../control/class_requests.js";
import { press, returnToClass, wander } from "../../control/classroom.js";
import { sentences, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { exitClass } from "../../net/classroom.js";
import { STOPPED } from "../../net/errors.js";
import { session } from "../../net/session.js";
import { answersTo, answerTo, classState, drives, forgotten, ownSeat, roaming } from "../../state/classroom.js";
import { currentLesson } from "../../state/lessons.js";
import { connection } from "../../state/store.js";
import { AnswerInput } from "./answers.js";
import { Histogram } from "./histogram.js";
import { answerText, Clock, questionText } from "./question_parts.js";
import { SelfView } from "./self_view.js";

/** @typedef {import("../../core/wire.js").PollState} Poll */

export function FollowerBar() {
  const now = classState.value;
  const own = ownSeat.value;
  const ref = useBarHeight();
  const [hiddenKey, setHiddenKey] = useState(""); // question and phase of the dismissed sheet
  if (!now || !own) return null;
  if (now.over) return html`<${Over} />`;
  const poll = now.poll && !isPast(now.poll) ? now.poll : null;
  const key = poll ? `${poll.id} ${poll.phase}` : "";
  return html`<${Sheet} poll=${key === hiddenKey ? null : poll} close=${() => setHiddenKey(key)} />
    <section class="class-bar" id="class-bar" aria-label=${t("class.label")} data-roaming=${roaming.value} ref=${ref}>
      <${Location} />
      ${own.remote ? html`<${Remote} />` : null}
      ${
        poll && key === hiddenKey
          ? html`<button class="quiet" id="class-question" onClick=${() => setHiddenKey("")}>
              ${t("class.question")}</button>`
          : null
      }
      <button class="class-lost" id="class-lost" aria-pressed=${own.lost} onClick=${() =>
        requestOfClass("class_lost", { lost: !own.lost })}>${t(own.lost ? "class.lost_now" : "class.lost")}</button>
      <${SelfView} />
    </section>`;
}

function Location() {
  const now = classState.value;
  if (connection.value === "lost" || session.problem.value?.key === STOPPED)
    return html`<p class="class-where" role="status">${t("class.away")}</p>`;
  if (drives.value) return html`<p class="class-where" role="status"><b>${t("class.you_drive")}</b></p>`;
  if (roaming.value)
    return html`<p class="class-where class-roaming"><span>${t("class.roaming")}</span></p>
      <button class="command primary" id="class-back" onClick=${returnToClass}><${Icon} name="back" /> ${t(
        "class.come_back",
      )}</button>`;
  if (!now?.theater) return html`<p class="class-where" role="status">${t("class.begins")}</p>`;
  const by = now.driver_name;
  return html`<p class="class-where" role="status"><i class="class-dot" aria-hidden="true"></i> ${
    by ? t("class.with", { name: by }) : t("class.together")
  }</p>
    ${now.held ? null : html`<button class="quiet" id="class-wander" onClick=${wander}>${t("class.wander")}</button>`}`;
}

const Remote = () => html`<div class="class-remote" role="group" aria-label=${t("class.remote")}>
  <button class="command" id="class-press-back" onClick=${() => press("back")}
    aria-label=${t("class.press_back")}><${Icon}
    name="back" /></button>
  <button class="command primary" id="class-press-next" onClick=${() => press("next")}>${t("class.press_next")} <${Icon}
    name="forward" /></button>
</div>`;

function Over() {
  const text = forgotten.value ? ["class.forgotten", "class.forgotten.seat"] : ["class.over"];
  return html`<section class="class-bar" id="class-bar" aria-label=${t("class.label")} ref=${useBarHeight()}>
    <p class="class-where" role="status">${sentences(text.map((key) => t(key)))}</p>
    <button class="quiet" id="class-leave" onClick=${exitClass}>${t("class.leave")}</button>
  </section>`;
}

/** Return whether the class's lesson has advanced since it showed the answers to its question. @param {Poll} poll */
function isPast({ kind, phase, theater, item }) {
  if (kind !== "lesson" || phase !== "shown") return false;
  if (classState.value?.lesson?.theater !== theater) return true;
  const now = currentLesson.value;
  if (now?.theater !== theater) return false;
  const since = now.items.filter(({ index, kind }) => index > (item ?? -1) && kind !== "text" && kind !== "show");
  return since.length + Number(now.progress.over) > 1; // the answers lead to the first of these
}

/**
 * The question sheet. It stays on top until it is dismissed, and returns with the results.
 * @param {{poll: Poll | null, close: () => void}} props
 */
function Sheet({ poll, close }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (poll && box.current && !box.current.contains(document.activeElement))
      box.current.focus({ preventScroll: true });
  }, [poll === null, poll?.id]);
  useEffect(() => {
    if (poll?.kind === "lesson") document.getElementById(`question-${poll.item}`)?.scrollIntoView({ block: "center" });
  }, [poll?.id]);
  if (!poll) return null;
  const ownAnswers = answersTo(poll);
  const missed = poll.phase === "shown" && !ownAnswers.length && answerTo(poll.id, 0) !== undefined;
  return html`<section class="class-sheet" id="class-sheet" tabindex="-1" ref=${box} aria-labelledby="class-asked">
    <p class="class-sheet-head"><span>${t(`class.phase.${poll.phase}`)}</span> <${Clock} poll=${poll} />
      <button class="tool" id="class-aside" aria-label=${t("class.aside")} title=${t("class.aside")}
        onClick=${close}><${Icon} name="close" /></button></p>
    <h2 id="class-asked">${questionText(poll)}</h2>
    ${
      poll.phase === "open" || poll.phase === "again"
        ? html`<${AnswerInput} poll=${poll} answer=${answerToClass} />
          <p class="class-in" role="status">${ownAnswers.length ? t("class.answer_is_in") : ""}</p>`
        : poll.phase === "shown"
          ? html`<${Histogram} poll=${poll} ownAnswers=${ownAnswers} textOf=${answerText(poll)} />
            ${missed ? html`<p>${t("class.no_second")}</p>` : null}`
          : html`<p>${t(`class.wait.${poll.phase}`)}</p>`
    }
  </section>`;
}

// Height of the class's bar at the bottom of the page; other elements at the window's lower edge are placed above it.

const NAME = "--class-height"; // custom property of the root element, in CSS pixels, for style sheets

/** Return a `ref` callback that publishes the element's height as the bar's height while it is mounted. */
export function useBarHeight() {
  return useCallback(
    (() => {
      const root = document.documentElement;
      const sizes = new ResizeObserver(([{ target }]) =>
        root.style.setProperty(NAME, `${target.getBoundingClientRect().height}px`),
      );
      return (/** @type {Element | null} */ element) => {
        sizes.disconnect();
        root.style.removeProperty(NAME);
        if (element) sizes.observe(element, { box: "border-box" });
      };
    })(),
    [],
  );
}
