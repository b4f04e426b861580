// Marks over the figure for answers that are places, which can be clicked; afterwards the learner's answers beside the
// outcome. The question lists the same answers for keyboards and screen readers.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { effect, signal } from "../../../vendor/signals/signals.js";
import { optionText } from "../../i18n/questions.js";
import { t } from "../../i18n/words.js";
import { anchorOf } from "../../kit/anchors.js";
import { schedule } from "../../kit/frame.js";
import { html } from "../../kit/html.js";
import { shownPart } from "../../state/lessons.js";
import { drawnIndex, log, sequenceView, state } from "../../state/store.js";
import { choose, marks } from "./prediction.js";

/** @import {Box} from "../../kit/anchors.js" */
/** @import {Mark, Place} from "./prediction.js" */

/**
 * @typedef {Mark & {box: Box, level: number, side: "left" | "middle" | "right"}} Drawn `level`: index
 *   among stacked labels or lines; `side`: side of the figure that its label must not cross
 */

const SETTLED = 240; // ms after which the layout has settled
const LEVEL = 22; // px
const AROUND = 3; // px between a frame and its contents
const WORDS = 100; // px of half the width of a mark's label

const ON_AXIS = new Set(["tokens", "bytes", "step"]); // number answers, whose labels are stacked

/** @type {import("../../../vendor/signals/signals.js").Signal<Drawn[]>} */
const drawn = signal([]);

export function Marks() {
  useEffect(() => {
    let later = 0;
    const soon = () => {
      schedule(measure);
      clearTimeout(later);
      later = setTimeout(() => schedule(measure), SETTLED);
    };
    const figure = /** @type {HTMLElement | null} */ (document.querySelector(".lesson-stage"));
    const stop = effect(() => {
      [marks.value, shownPart.value, state.value, sequenceView.value, drawnIndex.value];
      soon();
    });
    const stopSight = effect(() => {
      const onBar = marks.value.filter(({ place }) => place.kind === "bytes").length;
      figure?.style.setProperty("--byte-marks", String(onBar)); // their words stand above the bar
      schedule(intoSight);
    });
    const sizes = new ResizeObserver(soon);
    if (figure) sizes.observe(figure);
    addEventListener("scroll", soon, true);
    return () => {
      stop();
      stopSight();
      sizes.disconnect();
      removeEventListener("scroll", soon, true);
      clearTimeout(later);
      figure?.style.removeProperty("--byte-marks");
      drawn.value = [];
    };
  }, []);
  return html`<div class="marks" aria-hidden="true">${drawn.value.map(
    (mark) => html`<${One} key=${`${mark.item.index}/${mark.option}`} mark=${mark} />`,
  )}</div>`;
}

/** Scroll the region so that the places of the answers are visible: the bar in its figures, or its beginning. */
function intoSight() {
  const kind = marks.peek()[0]?.place.kind;
  const memory = document.querySelector(".lesson-stage .memory");
  if (!kind || !memory) return;
  const bar = kind === "bytes" ? memory.querySelector(".memory-bar[data-scale]") : null;
  const [sight, at] = [memory.getBoundingClientRect(), bar?.getBoundingClientRect()];
  memory.scrollTop = at ? memory.scrollTop + at.top - sight.top - sight.height / 2 : 0;
}

function measure() {
  const frame = document.querySelector(".lesson-stage")?.getBoundingClientRect();
  if (!frame) return;
  let level = 0;
  const found = marks.peek().flatMap((mark) => {
    const box = placeBox(mark.place);
    if (!box) return [];
    const side = mark.place.kind === "tokens" ? sideOfTokens(box, frame.right) : sideOf(box, frame);
    return [{ ...mark, box, side, level: ON_AXIS.has(mark.place.kind) || mark.role === "mine" ? level++ : 0 }];
  });
  if (JSON.stringify(found) !== JSON.stringify(drawn.peek())) drawn.value = found;
}

/** @param {Box} box @param {DOMRect} frame @returns {Drawn["side"]} */
function sideOf({ x, width }, frame) {
  const middle = x + width / 2;
  return middle < frame.left + WORDS ? "left" : middle > frame.right - WORDS ? "right" : "middle";
}

/**
 * Align a label of tokens with their right edge, unless it would cover the row names and there is more room behind.
 * @param {Box} box @param {number} right @returns {Drawn["side"]}
 */
function sideOfTokens({ x, width }, right) {
  const left = document.querySelector(".lesson-stage .token-row-window")?.getBoundingClientRect().left ?? 0;
  const room = x + width - left;
  return room < 2 * WORDS && room < right - x - width ? "left" : "right";
}

/** @param {Place} place @returns {Box | null} */
function placeBox(place) {
  switch (place.kind) {
    case "block":
      return anchorOf("slot", place.block, null);
    case "slot":
      return anchorOf("slot", place.block, place.offset);
    case "tokens":
      return anchorOf("columns", place.seq, place.first, place.count);
    case "request":
      return anchorOf("track", place.seq) ?? elementBox(`.table-row[data-seq="${place.seq}"] .table-name`);
    case "step": {
      const index = log.peek()?.records.findIndex((record) => record.step === place.step) ?? -1;
      return index < 0 ? null : anchorOf("record", index);
    }
    case "bytes": {
      const bar = elementBox(".memory-bar[data-scale]");
      const scale = Number(document.querySelector(".memory-bar[data-scale]")?.getAttribute("data-scale"));
      return bar && place.bytes <= scale ? { ...bar, x: bar.x + (place.bytes / scale) * bar.width, width: 0 } : null;
    }
  }
}

/** Return the box of a visible element of the figure. @param {string} selector @returns {Box | null} */
function elementBox(selector) {
  const element = document.querySelector(`.lesson-stage ${selector}`);
  if (!element?.getClientRects().length) return null;
  const box = element.getBoundingClientRect();
  const frame = element.closest(".region")?.getBoundingClientRect();
  if (frame && (box.top < frame.top || box.bottom > frame.bottom)) return null;
  return { x: box.x, y: box.y, width: box.width, height: box.height };
}

/** @param {{mark: Drawn}} props */
function One({ mark }) {
  const { item, option, place, role, box, level, side } = mark;
  const isOffer = role === "offered" || role === "chosen";
  const around = place.kind === "slot" || place.kind === "block" ? AROUND : 0;
  const stem = place.kind === "bytes" || place.kind === "step" ? level * LEVEL : 0; // px of the line up to its label
  const style = {
    left: `${box.x - around}px`,
    top: `${box.y - around + (place.kind === "tokens" ? level * LEVEL : -stem)}px`,
    width: `${box.width + 2 * around}px`,
    height: `${place.kind === "tokens" ? LEVEL : box.height + 2 * around + stem}px`,
  };
  const raised = ON_AXIS.has(place.kind) ? {} : { bottom: `calc(100% + ${level * LEVEL}px)` };
  const text = optionText(item.options[option]);
  return html`<button class="mark" tabindex="-1" data-kind=${place.kind} data-role=${role} data-side=${side}
    data-option=${option}
    style=${style} disabled=${!isOffer} onClick=${() => choose(item, option)}>${
      isOffer
        ? ON_AXIS.has(place.kind)
          ? html`<span class="mark-label num">${text}</span>`
          : null
        : html`<span class="mark-label" style=${role === "outcome" ? {} : raised}><b
          class="num">${text}</b> ${t(`lesson.mark.${role}`)}</span>`
    }</button>`;
}
