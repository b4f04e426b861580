// The question on the projected view, readable from the last row: the number of answers, then the answers.

import { letter } from "../../i18n/questions.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { attendance, classState, dismissed, isJoinCodeLarge } from "../../state/classroom.js";
import { Histogram } from "./histogram.js";
import { PollSteps } from "./poll_steps.js";
import { answerText, Clock, optionTexts, questionText } from "./question_parts.js";

export function ProjectorView() {
  const poll = classState.value?.poll ?? null;
  if (!poll || classState.value?.over || isJoinCodeLarge.value || dismissed.value === poll.id) return null;
  const shown = poll.phase === "shown";
  return html`<section class="class-projector" id="class-projector" aria-labelledby="class-projector-asked"
    data-phase=${poll.phase}>
    <h2 id="class-projector-asked">${questionText(poll)}</h2>
    ${
      shown
        ? html`<${Histogram} poll=${poll} ownAnswers=${[]} textOf=${answerText(poll)} />`
        : html`<ol class="class-projector-options">${optionTexts(poll).map(
            (text, i) => html`<li key=${i}><i aria-hidden="true">${letter(i)}</i>${text}</li>`,
          )}</ol>`
    }
    <p class="class-projector-foot"><${Counted} /> <${Clock} poll=${poll} />
      <${PollSteps} poll=${poll} />
      ${
        shown
          ? html`<button class="quiet" id="class-projector-close" onClick=${() => (dismissed.value = poll.id)}>${t(
              "class.take_off",
            )}</button>`
          : null
      }</p>
  </section>`;
}

/** Number of answers, out of all present participants. */
export function Counted() {
  const poll = classState.value?.poll;
  const now = attendance.value;
  if (!poll || !now || (poll.phase !== "open" && poll.phase !== "again")) return null;
  const here = now.seats.filter((seat) => seat.here || seat.answered).length; // phones may be locked by now
  const text = t("class.counted", { n: now.answered, all: here });
  return html`<span class="class-counted num" role="status">${text}</span>`;
}
