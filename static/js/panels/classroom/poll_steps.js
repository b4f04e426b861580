// Steps of a question for the presenter: discuss, vote again, close, and reveal the answers after a confirmation.

import { useState } from "../../../vendor/preact/hooks.js";
import { requestOfClass } from "../../control/class_requests.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Select, withValue } from "../../kit/inputs.js";
import { secondsLeft } from "../../state/classroom.js";
import { typedAs } from "./answers.js";

/** @typedef {import("../../core/wire.js").PollState} Poll */

const MORE = 30; // seconds

/** @param {{poll: Poll}} props */
export function PollSteps({ poll }) {
  const [asks, ask] = useState(-1);
  const [right, write] = useState("");
  /** @param {Poll["phase"]} to */
  const go = (to) =>
    requestOfClass("class_poll", { poll: poll.id, to, right: to === "shown" ? rightOf(poll, right) : null });
  /** @param {Poll["phase"]} to */
  const step = (to) =>
    html`<button class="command" id=${`class-to-${to}`} onClick=${() => go(to)}>${t(`class.to.${to}`)}</button>`;
  if (poll.phase === "shown") return null;
  if (asks === poll.id)
    return html`<span class="class-steps" role="group" aria-label=${t("class.show_sure")}>
      ${
        poll.kind === "lesson"
          ? html`<span>${t("class.show_lesson")}</span>`
          : html`<${Right} poll=${poll} right=${right} write=${write} />`
      }
      <button class="command primary" id="class-show-sure" onClick=${() => (ask(-1), go("shown"))}>${t(
        "class.show_sure",
      )}</button>
      <button class="quiet" onClick=${() => ask(-1)}>${t("class.not_yet")}</button></span>`;
  return html`<span class="class-steps">
    ${poll.phase === "open" ? step("talk") : null}
    ${(poll.phase === "talk" || poll.phase === "closed") && poll.round === 0 ? step("again") : null}
    ${poll.phase === "open" || poll.phase === "again" ? step("closed") : null}
    ${
      poll.left === null
        ? null
        : html`<button class="quiet" id="class-more-time" onClick=${() => moreTime(poll)}>${t("class.more_time", {
            n: MORE,
          })}</button>`
    }
    <button class="command primary" id="class-show" onClick=${() => ask(poll.id)}>${t("class.show")}</button>
  </span>`;
}

/** Extend the clock by `MORE` seconds. @param {Poll} poll */
const moreTime = (poll) => requestOfClass("class_clock", { poll: poll.id, seconds: (secondsLeft() ?? 0) + MORE });

/** @param {{poll: Poll, right: string, write: (text: string) => void}} props */
function Right({ poll, right, write }) {
  return html`<label class="class-right">${t("class.right_is")}
    ${
      poll.kind === "choice"
        ? html`<${Select} id="class-right" value=${right} commit=${write}
          choices=${[["", t("class.right_none")], ...poll.options.map((text, i) => [i, text])]} />`
        : html`<input id="class-right" value=${right} placeholder=${t("class.right_none")}
          onInput=${withValue(write)} />`
    }</label>`;
}

/** @param {Poll} poll @param {string} text */
const rightOf = (poll, text) => (poll.kind === "choice" ? typedAs("slot", text) : typedAs(poll.kind, text));
