// "Be the allocator" exercise: the learner lists block operations by dragging, tapping or keys; the list is graded and
// shown beside the engine's operations.

import { signal } from "../../../vendor/signals/signals.js";
import { answer, waiting } from "../../control/lesson.js";
import { jumpTo } from "../../control/playback.js";
import { t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { useHeldFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { checkpoint } from "../../state/lessons.js";
import { own } from "../../state/run.js";
import { BlockManager } from "./block_manager.js";
import { useScrollIntoView } from "./follow.js";

/** @import {BlockMove, WorkItem, Verdict} from "../../core/wire.js" */

/** The learner's current list, and the index of its item. */
const list = signal(/** @type {{item: number, moves: BlockMove[]}} */ ({ item: -1, moves: [] }));

/** Return the learner's current list for an item. @param {WorkItem} item */
const movesOf = (item) => (list.value.item === item.index ? list.value.moves : []);

/** @type {Record<Verdict["grade"], string>} */
const SIGNS = { right: "✓", other: "≈", illegal: "✗", differs: "≠" };

/** @param {{item: WorkItem}} props */
export function Allocator({ item }) {
  const isOpen = !item.over && checkpoint.value?.index === item.index;
  const moves = movesOf(item);
  const state = isOpen && item.records <= own.numRecords.value ? own.log.value?.stateAt(item.records - 1) : null;
  /** @param {BlockMove[]} newMoves */
  const setMoves = (newMoves) => (list.value = { item: item.index, moves: newMoves });
  const latestRef = useScrollIntoView(item.given.length, item.over);
  const box = useHeldFocus(moves.length, '.desk-tool[tabindex="0"]');
  return html`<div class="work" role="group" ref=${box} id=${`work-${item.index}`} data-over=${item.over}
    aria-label=${t("lesson.work.title")}>
    <h2 class="work-title">${t("lesson.work.title")}</h2>
    <${Tasks} item=${item} />
    ${item.given.map(
      (graded, i) =>
        graded &&
        html`<${GradedAttempt} key=${i} graded=${graded} attempt=${i + 1}
      latestRef=${i === item.given.length - 1 ? latestRef : null} />`,
    )}
    ${
      state
        ? html`<${BlockManager} state=${state} moves=${moves}
          onMove=${(/** @type {BlockMove} */ move) => setMoves([...moves, move])} />
        <ol class="work-list" aria-label=${t("lesson.work.list")}>${moves.map(
          (move, i) => html`<li key=${i}>${moveText(move)} <button class="quiet work-back"
            aria-label=${t("lesson.work.back", { move: moveText(move) })}
            onClick=${() => setMoves(moves.filter((_, j) => j !== i))}>✕</button></li>`,
        )}</ol>
        <div class="work-ends">
          <button class="command primary" id="work-give" disabled=${!moves.length || waiting.value}
            onClick=${() => answer(moves)}>${t(item.given.length ? "lesson.work.second" : "lesson.work.give")}</button>
          <button class="quiet" id="work-unsure" disabled=${waiting.value}
            onClick=${() => answer(null)}>${t("lesson.work.show")}</button>
        </div>`
        : null
    }
    ${item.engine ? html`<${EngineMoves} item=${item} />` : null}
  </div>`;
}

/** The scheduler's requests by step. @param {{item: WorkItem}} props */
function Tasks({ item }) {
  /** @type {Map<number, WorkItem["tasks"]>} */
  const steps = new Map();
  for (const task of item.tasks) steps.set(task.step, [...(steps.get(task.step) ?? []), task]);
  return html`<ul class="work-tasks">${[...steps].map(
    ([step, tasks]) => html`<li key=${step}><b class="num">${t("lesson.work.step", { n: step })}</b>
      <ul>${tasks.map(
        ({ kind, seq, start, end }) =>
          html`<li><${Swatch} id=${seq} /> ${t(`lesson.work.task.${kind}`, {
            seq,
            n: end,
            positions: end - start === 1 ? start : `${start}–${end - 1}`,
          })}</li>`,
      )}</ul></li>`,
  )}</ul>`;
}

/**
 * A submitted list with a verdict for each operation.
 * @param {{graded: import("../../core/wire.js").GradedList, attempt: number,
 *   latestRef: {current: HTMLElement | null} | null}} props `latestRef`: ref of the newest list, else null
 */
function GradedAttempt({ graded, attempt, latestRef }) {
  return html`<div class="work-result" role="status" ref=${latestRef} data-news=${latestRef !== null} tabindex="-1">
    <h3>${t(attempt > 1 ? "lesson.work.your_second" : "lesson.work.yours")}</h3>
    <ol>${graded.moves.map((move, i) => {
      const { grade, why, refs } = graded.verdicts[i];
      const values = {
        block: move.kind === "copy" && why !== "in_use" ? move.source : move.block,
        seq: move.seq,
        refs,
      };
      return html`<li data-grade=${grade}><i aria-label=${t(`lesson.work.grade.${grade}`)}>${
        SIGNS[grade]
      }</i> ${moveText(move)}${
        why ? html` <span class="work-why">${t(`lesson.work.why.${why}`, values)}</span>` : null
      }</li>`;
    })}</ol>
    ${graded.missing ? html`<p>${t("lesson.work.missing", { n: graded.missing })}</p>` : null}
    ${graded.right ? html`<p><b>${t("lesson.work.all_right")}</b></p>` : null}
  </div>`;
}

/** The engine's operations. @param {{item: WorkItem}} props */
function EngineMoves({ item }) {
  return html`<div class="work-result" data-news=${item.given.at(-1) === null} tabindex="-1">
    <h3>${t("lesson.work.engine")}</h3>
    <ol>${(item.engine ?? []).map(({ deed: move, record }) => {
      const isShown = record < own.numRecords.value;
      return html`<li>${moveText(move)} ${
        isShown
          ? html`<button class="lesson-link num" onClick=${() => jumpTo(record)}>${t("lesson.record", {
              i: record + 1,
            })}</button>`
          : null
      }</li>`;
    })}</ol>
  </div>`;
}

/** Text of an operation. @param {BlockMove} move */
const moveText = ({ kind, block, seq, source }) => t(`lesson.work.move.${kind}`, { block, seq, source });
