// Steps of a question for the presenter: discuss, vote again, close, and reveal the answers after a confirmation.

import { useState } from "../../../vendor/preact/hooks.js";
import { requestOfClass } from "../../control/class_requests.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Select, withValue } from "../../kit/inputs.js";
import { secondsLeft } from "../../state/classroom.js";
import { parseAnswer } from "./answers.js";

/** @typedef {import("../../core/wire.js").PollState} Poll */

const EXTRA_SECONDS = 30;

/** @param {{poll: Poll}} props */
export function PollSteps({ poll }) {
  const [confirming, setConfirming] = useState(-1);
  const [right, setRight] = useState("");
  /** @param {Poll["phase"]} to */
  const advance = (to) =>
    requestOfClass("class_poll", { poll: poll.id, to, right: to === "shown" ? rightOf(poll, right) : null });
  /** @param {Poll["phase"]} to */
  const step = (to) =>
    html`<button class="command" id=${`class-to-${to}`} onClick=${() => advance(to)}>${t(`class.to.${to}`)}</button>`;
  if (poll.phase === "shown") return null;
  if (confirming === poll.id)
    return html`<span class="class-steps" role="group" aria-label=${t("class.show_sure")}>
      ${
        poll.kind === "lesson"
          ? html`<span>${t("class.show_lesson")}</span>`
          : html`<${RightAnswer} poll=${poll} right=${right} setRight=${setRight} />`
      }
      <button class="command primary" id="class-show-sure" onClick=${() => (setConfirming(-1), advance("shown"))}>${t(
        "class.show_sure",
      )}</button>
      <button class="quiet" onClick=${() => setConfirming(-1)}>${t("class.not_yet")}</button></span>`;
  return html`<span class="class-steps">
    ${poll.phase === "open" ? step("talk") : null}
    ${(poll.phase === "talk" || poll.phase === "closed") && poll.round === 0 ? step("again") : null}
    ${poll.phase === "open" || poll.phase === "again" ? step("closed") : null}
    ${
      poll.left === null
        ? null
        : html`<button class="quiet" id="class-more-time" onClick=${() => moreTime(poll)}>${t("class.more_time", {
            n: EXTRA_SECONDS,
          })}</button>`
    }
    <button class="command primary" id="class-show" onClick=${() => setConfirming(poll.id)}>${t("class.show")}</button>
  </span>`;
}

/** Extend the clock by `EXTRA_SECONDS` seconds. @param {Poll} poll */
const moreTime = (poll) =>
  requestOfClass("class_clock", { poll: poll.id, seconds: (secondsLeft() ?? 0) + EXTRA_SECONDS });

/** @param {{poll: Poll, right: string, setRight: (text: string) => void}} props */
function RightAnswer({ poll, right, setRight }) {
  return html`<label class="class-right">${t("class.right_is")}
    ${
      poll.kind === "choice"
        ? html`<${Select} id="class-right" value=${right} commit=${setRight}
          choices=${[["", t("class.right_none")], ...poll.options.map((text, i) => [i, text])]} />`
        : html`<input id="class-right" value=${right} placeholder=${t("class.right_none")}
          onInput=${withValue(setRight)} />`
    }</label>`;
}

/** @param {Poll} poll @param {string} text */
const rightOf = (poll, text) => (poll.kind === "choice" ? parseAnswer("slot", text) : parseAnswer(poll.kind, text));
