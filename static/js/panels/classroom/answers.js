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

/** @param {{poll: Poll, give: (given: Answer) => unknown}} props */
export function AnswerInput({ poll, give }) {
  const before = answerTo(poll.id, poll.round);
  return html`${
    poll.kind === "choice" || poll.kind === "lesson"
      ? html`<${Options} poll=${poll} before=${before} give=${give} />`
      : html`<${Field} key=${`${poll.id} ${poll.round}`} poll=${poll} before=${before} give=${give} />`
  }
    <button class="class-unsure quiet" data-given=${before === null} onClick=${() => give(null)}>${t(
      "class.unsure",
    )}</button>`;
}

/** @param {{poll: Poll, before: Answer | undefined, give: (given: Answer) => unknown}} props */
const Options = ({
  poll,
  before,
  give,
}) => html`<div class="class-options" role="group" aria-label=${questionText(poll)}>
  ${optionTexts(poll).map(
    (text, i) => html`<button class="class-option" key=${i} aria-pressed=${before === i} onClick=${() => give(i)}>
      <i aria-hidden="true">${letter(i)}</i><span>${text}</span></button>`,
  )}
</div>`;

/** @param {{poll: Poll, before: Answer | undefined, give: (given: Answer) => unknown}} props */
function Field({ poll, before, give }) {
  const [text, write] = useState(before === undefined || before === null ? "" : String(before));
  const tapped = poll.kind === "slot" ? heldSlot() : null;
  const value = typedAs(poll.kind, text);
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    if (value !== null) give(value);
  };
  return html`<form class="class-field" onSubmit=${submit}>
    <label for="class-answer-input">${t(`class.give.${poll.kind}`)}</label>
    <span class="class-field-row">
      <input id="class-answer-input" value=${text} autocomplete="off" autocapitalize="none" spellcheck=${false}
        inputmode=${poll.kind === "slot" ? "numeric" : poll.kind === "number" ? "decimal" : "text"}
        maxlength="64" onInput=${withValue(write)} />
      <button class="command primary" disabled=${value === null}>${t(
        before === undefined || before === null ? "class.send" : "class.change",
      )}</button>
    </span>
    ${
      poll.kind !== "slot"
        ? null
        : tapped === null
          ? html`<p class="hint">${t("class.tap_slot")}</p>`
          : html`<button type="button" class="quiet" onClick=${() => (write(String(tapped)), give(tapped))}>${t(
              "class.take_slot",
              { n: tapped },
            )}</button>`
    }
  </form>`;
}

/** @param {Poll["kind"]} kind @param {string} text @returns {Answer} null while there is no valid answer */
export function typedAs(kind, text) {
  const written = text.trim();
  if (!written) return null;
  if (kind === "token") return written;
  const number = Number(written.replace(",", "."));
  if (!Number.isFinite(number) || (kind === "slot" && (!Number.isInteger(number) || number < 0))) return null;
  return number;
}

/** Slot that is pinned in the picture, or null. */
function heldSlot() {
  const { block, offset } = selected.value ?? {};
  const size = Number(log.value?.header.engine.block_size ?? 0);
  return block === undefined || offset === undefined || offset === null || !size ? null : block * size + offset;
}
