// A question: answered before the run shows it, with a second try; then what decides it, and one's own answer beside.

import { signal } from "../../../vendor/signals/signals.js";
import { answer, waiting } from "../../control/lesson.js";
import { jumpTo } from "../../control/playback.js";
import { html } from "../../kit/html.js";
import { barrier, opened } from "../../state/lessons.js";
import { own } from "../../state/run.js";
import { bytesText, grouped, hasText, t } from "../../tell/words.js";

/**
 * @typedef {import("../../state/lessons.js").ToldAsk} ToldAsk
 * @typedef {import("../../core/wire.js").ToldOption} ToldOption
 */

/** The answer that is chosen and not given yet; -1: not sure; null: none. */
const chosen = signal(/** @type {{item: number, option: number} | null} */ (null));

/** Whether what was right may be said: where learning is measured only at the end. */
const isTold = () => opened.value?.kind === "lesson" || opened.value?.progress.over === true;

/** @param {{item: ToldAsk}} props */
export function Question({ item }) {
  const isOpen = !item.over && barrier.value === item;
  const mine = chosen.value?.item === item.index ? chosen.value.option : null;
  const stem = t(`question.${item.rule}.stem`, shownValues(item.values, item.mark));
  /** @param {Event} event */
  const give = (event) => {
    event.preventDefault();
    if (mine === null) return;
    chosen.value = null;
    answer(mine < 0 ? null : mine);
  };
  return html`<form class="question" id=${`question-${item.index}`} data-over=${item.over} onSubmit=${give}>
    <fieldset disabled=${!isOpen || waiting.value}>
      <legend>${stem}</legend>
      ${item.options.map(
        (option, i) => html`<${Choice} key=${i} item=${item} index=${i} option=${option} mine=${mine} />`,
      )}
      <label class="answer unsure" data-given=${item.given.includes(null)}>
        <input type="radio" name=${`answer-${item.index}`} checked=${mine === -1}
          onChange=${() => (chosen.value = { item: item.index, option: -1 })} />
        <span>${t("lesson.unsure")}</span>
      </label>
    </fieldset>
    ${
      isOpen
        ? html`<button class="command primary" id="lesson-answer" disabled=${mine === null || waiting.value}>${t(
            item.given.length ? "lesson.second" : "lesson.answer",
          )}</button>`
        : null
    }
    ${isTold() ? html`<${Verdict} item=${item} />` : null}
  </form>`;
}

/** @param {{item: ToldAsk, index: number, option: ToldOption, mine: number | null}} props */
function Choice({ item, index, option, mine }) {
  const given = item.given.includes(index);
  const right = item.over && isTold() ? item.right === index : null;
  const tried = !item.over && given;
  const isWrong = given && right !== true && isTold();
  return html`<label class="answer" data-given=${given} data-right=${right}>
    <input type="radio" name=${`answer-${item.index}`}
      checked=${mine === index || (item.over && item.given.at(-1) === index)}
      disabled=${tried} onChange=${() => (chosen.value = { item: item.index, option: index })} />
    <span class="num">${t(option.text, shownValues(option.values, item.mark))}</span>
    ${right ? html`<i class="answer-mark" aria-label=${t("lesson.right")}>✓</i>` : null}
    ${isWrong ? html`<i class="answer-mark wrong" aria-label=${t("lesson.yours")}>✗</i>` : null}
  </label>`;
}

/** What came of the answers. @param {{item: ToldAsk}} props */
function Verdict({ item }) {
  if (!item.given.length) return null;
  const why = item.whys.at(-1);
  const isRight = item.over && item.given.at(-1) === item.right;
  const key = why === "near" ? "question.near" : `question.${item.rule}.why.${why}`;
  const plain = `question.${item.rule}.${why}`;
  const text = why ? t(hasText(key) ? key : plain, shownValues(item.values, item.mark)) : "";
  const { evidence } = item;
  const isShown = evidence !== null && evidence.record < own.numRecords.value;
  return html`<div class="verdict" role="status" data-right=${isRight}>
    ${item.given.at(-1) === null || isRight ? null : html`<p>${text}</p>`}
    ${
      item.over
        ? html`<p>${isRight ? html`<b>${t("lesson.right")}</b> ` : null}${t(
            `question.${item.rule}.right`,
            shownValues(item.values, item.mark),
          )}</p>`
        : html`<p>${t("lesson.try_again")}</p>`
    }
    ${
      evidence
        ? html`<p class="verdict-source"><code>${evidence.figure}</code> ${
            isShown
              ? html`<button type="button" class="lesson-link num"
              onClick=${() => jumpTo(evidence.record)}>${t("lesson.record", { i: evidence.record + 1 })}</button>`
              : t("lesson.record_comes", { i: evidence.record + 1 })
          }</p>`
        : null
    }
  </div>`;
}

/**
 * Numbers as the page writes them.
 *
 * @param {Record<string, string | number>} values
 * @param {string | null} mark
 */
function shownValues(values, mark) {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      if (typeof value !== "number") return [name, value];
      if (name === "n" && mark === "bytes") return [name, bytesText(value)];
      return [name, value > 9999 ? grouped(value) : value];
    }),
  );
}
