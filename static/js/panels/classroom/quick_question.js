// The presenter's quick question: kind, text, options and an optional clock.

import { useState } from "../../../vendor/preact/hooks.js";
import { askLesson, requestOfClass } from "../../control/class_requests.js";
import { stemText } from "../../i18n/questions.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Select, withValue } from "../../kit/inputs.js";
import { askOpen, canAsk, classState } from "../../state/classroom.js";
import { checkpoint } from "../../state/lessons.js";

const KINDS = /** @type {const} */ (["choice", "number", "slot", "token"]);
const MAX_OPTIONS = 8;
const CLOCKS = [30, 60, 90, 120, 180, 300]; // seconds

export function QuickQuestion() {
  if (!canAsk.value) return null;
  return html`<div class="class-ask"><${LessonQuestion} /><${QuestionForm} /></div>`;
}

/** The question that the open lesson is waiting at. */
function LessonQuestion() {
  const item = checkpoint.value;
  if (item?.kind !== "ask" || classState.value?.lesson === null) return null;
  return html`<div class="class-ask-lesson"><p>${stemText(item)}</p>
    <button class="command primary" id="class-ask-lesson" onClick=${askLesson}>${t("class.ask_lesson")}</button></div>`;
}

function QuestionForm() {
  const [kind, setKind] = useState(/** @type {typeof KINDS[number]} */ ("choice"));
  const [text, setText] = useState("");
  const [options, setOptions] = useState(["", ""]);
  const [seconds, setSeconds] = useState("");
  const filledOptions = options.map((one) => one.trim()).filter(Boolean);
  const canAsk = text.trim() && (kind !== "choice" || filledOptions.length > 1);
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    const opened = await requestOfClass("class_ask", {
      kind,
      text: text.trim(),
      options: kind === "choice" ? filledOptions : [],
      seconds: seconds ? Number(seconds) : null,
    });
    if (!opened) return;
    askOpen.value = false;
    setText("");
    setOptions(["", ""]);
  };
  /** @param {number} i @param {string} value */
  const change = (i, value) => {
    const next = options.map((one, at) => (at === i ? value : one));
    if (i === next.length - 1 && value && next.length < MAX_OPTIONS) next.push("");
    setOptions(next);
  };
  return html`<form class="class-form" id="class-quick" onSubmit=${submit}>
    <h3 class="panel-title">${t("class.quick")}</h3>
    <div class="segments" role="group" aria-label=${t("class.kind")}>${KINDS.map(
      (
        one,
      ) => html`<button type="button" class=${one === kind ? "segment chosen" : "segment"} aria-pressed=${one === kind}
        key=${one} onClick=${() => setKind(one)}>${t(`class.kind.${one}`)}</button>`,
    )}</div>
    <label class="field">${t("class.text")}<textarea id="class-text" rows="2" maxlength="500" value=${text}
      onInput=${withValue(setText)}></textarea></label>
    ${
      kind === "choice"
        ? options.map(
            (value, i) => html`<label class="field" key=${i}><span class="visually-hidden">${t("class.option", {
              n: i + 1,
            })}</span><input type="text" maxlength="200" value=${value} placeholder=${t("class.option", { n: i + 1 })}
              onInput=${withValue((text) => change(i, text))} /></label>`,
          )
        : html`<p class="hint">${t(`class.kind.${kind}.more`)}</p>`
    }
    <label class="field class-seconds">${t("class.seconds")} <${Select} value=${seconds}
      commit=${setSeconds}
      choices=${[["", t("class.no_clock")], ...CLOCKS.map((n) => [n, t("class.n_seconds", { n })])]} /></label>
    <button class="command primary" id="class-ask" disabled=${!canAsk}>${t("class.ask")}</button>
  </form>`;
}
