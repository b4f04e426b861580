// Input of an answer: option buttons, or a field for a number, slot or token.

import { useState } from "../../../vendor/preact/hooks.js";
import { letter } from "../../i18n/questions.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { answerTo } from "../../state/classroom.js";
import { log, selected } from "../../state/store.js";
import { optionTexts, questionText } from "./question_parts.js";

/**
 * @typedef {import("../../core/wire.js").PollState} Poll
 * @typedef {Poll["right"]} Answer
 */

/** @param {{poll: Poll, answer: (value: Answer) => unknown}} props */
export function AnswerInput({ poll, answer }) {
  const previous = answerTo(poll.id, poll.round);
  return html`${
    poll.kind === "choice" || poll.kind === "lesson"
      ? html`<${Options} poll=${poll} previous=${previous} answer=${answer} />`
      : html`<${Field} key=${`${poll.id} ${poll.round}`} poll=${poll} previous=${previous} answer=${answer} />`
  }
    <button class="class-unsure quiet" data-given=${previous === null} onClick=${() => answer(null)}>${t(
      "class.unsure",
    )}</button>`;
}

/** @param {{poll: Poll, previous: Answer | undefined, answer: (value: Answer) => unknown}} props */
const Options = ({
  poll,
  previous,
  answer,
}) => html`<div class="class-options" role="group" aria-label=${questionText(poll)}>
  ${optionTexts(poll).map(
    (text, i) => html`<button class="class-option" key=${i} aria-pressed=${previous === i} onClick=${() => answer(i)}>
      <i aria-hidden="true">${letter(i)}</i><span>${text}</span></button>`,
  )}
</div>`;

/** @param {{poll: Poll, previous: Answer | undefined, answer: (value: Answer) => unknown}} props */
function Field({ poll, previous, answer }) {
  const [text, setText] = useState(previous === undefined || previous === null ? "" : String(previous));
  const pinned = poll.kind === "slot" ? pinnedSlot() : null;
  const value = parseAnswer(poll.kind, text);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (value !== null) answer(value);
  };
  return html`<form class="class-field" onSubmit=${submit}>
    <label for="class-answer-input">${t(`class.give.${poll.kind}`)}</label>
    <span class="class-field-row">
      <input id="class-answer-input" value=${text} autocomplete="off" autocapitalize="none" spellcheck=${false}
        inputmode=${poll.kind === "slot" ? "numeric" : poll.kind === "number" ? "decimal" : "text"}
        maxlength="64" onInput=${withValue(setText)} />
      <button class="command primary" disabled=${value === null}>${t(
        previous === undefined || previous === null ? "class.send" : "class.change",
      )}</button>
    </span>
    ${
      poll.kind !== "slot"
        ? null
        : pinned === null
          ? html`<p class="hint">${t("class.tap_slot")}</p>`
          : html`<button type="button" class="quiet" onClick=${() => (setText(String(pinned)), answer(pinned))}>${t(
              "class.take_slot",
              { n: pinned },
            )}</button>`
    }
  </form>`;
}

/** @param {Poll["kind"]} kind @param {string} text @returns {Answer} null if the text is no valid answer */
export function parseAnswer(kind, text) {
  const trimmed = text.trim();
  if (!trimmed) return null;
  if (kind === "token") return trimmed;
  const number = Number(trimmed.replace(",", "."));
  if (!Number.isFinite(number) || (kind === "slot" && (!Number.isInteger(number) || number < 0))) return null;
  return number;
}

/** Slot that is pinned in the picture, or null. */
function pinnedSlot() {
  const { block, offset } = selected.value ?? {};
  const size = Number(log.value?.header.engine.block_size ?? 0);
  return block === undefined || offset === undefined || offset === null || !size ? null : block * size + offset;
}
