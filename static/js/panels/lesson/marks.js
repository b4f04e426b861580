// Marks over the figure for answers that are places in it. They can be clicked; later they show the learner's answers
// beside the outcome. The question lists the same answers for keyboards and screen readers.

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
 * @typedef {Mark & {box: Box, level: number, side: "left" | "middle" | "right"}} Drawn `level`: index among stacked
 *   labels or lines; `side`: alignment of the label, so that it remains within the figure
 */

const SETTLE_MS = 240; // until the layout has settled
const LEVEL_HEIGHT = 22; // px
const FRAME_GAP = 3; // px between a frame and its contents
const LABEL_HALF_WIDTH = 100; // px

const STACKED = new Set(["tokens", "bytes", "step"]); // kinds of answers whose labels are stacked

/** @type {import("../../../vendor/signals/signals.js").Signal<Drawn[]>} */
const drawn = signal([]);

export function Marks() {
  useEffect(() => {
    let timer = 0;
    const remeasure = () => {
      schedule(measure);
      clearTimeout(timer);
      timer = setTimeout(() => schedule(measure), SETTLE_MS);
    };
    const figure = /** @type {HTMLElement | null} */ (document.querySelector(".lesson-stage"));
    const stop = effect(() => {
      [marks.value, shownPart.value, state.value, sequenceView.value, drawnIndex.value];
      remeasure();
    });
    const stopScrolling = effect(() => {
      const onBar = marks.value.filter(({ place }) => place.kind === "bytes").length;
      figure?.style.setProperty("--byte-marks", String(onBar)); // their labels are above the bar
      schedule(scrollToMarks);
    });
    const sizes = new ResizeObserver(remeasure);
    if (figure) sizes.observe(figure);
    addEventListener("scroll", remeasure, true);
    return () => {
      stop();
      stopScrolling();
      sizes.disconnect();
      removeEventListener("scroll", remeasure, true);
      clearTimeout(timer);
      figure?.style.removeProperty("--byte-marks");
      drawn.value = [];
    };
  }, []);
  return html`<div class="marks" aria-hidden="true">${drawn.value.map(
    (mark) => html`<${MarkButton} key=${`${mark.item.index}/${mark.option}`} mark=${mark} />`,
  )}</div>`;
}

/** Scroll the memory region to the marks: to the bar for answers in bytes, otherwise to the top. */
function scrollToMarks() {
  const kind = marks.peek()[0]?.place.kind;
  const memory = document.querySelector(".lesson-stage .memory");
  if (!kind || !memory) return;
  const bar = kind === "bytes" ? memory.querySelector(".memory-bar[data-scale]") : null;
  const [view, barBox] = [memory.getBoundingClientRect(), bar?.getBoundingClientRect()];
  memory.scrollTop = barBox ? memory.scrollTop + barBox.top - view.top - view.height / 2 : 0;
}

function measure() {
  const frame = document.querySelector(".lesson-stage")?.getBoundingClientRect();
  if (!frame) return;
  let level = 0;
  const found = marks.peek().flatMap((mark) => {
    const box = placeBox(mark.place);
    if (!box) return [];
    const side = mark.place.kind === "tokens" ? sideOfTokens(box, frame.right) : sideOf(box, frame);
    return [{ ...mark, box, side, level: STACKED.has(mark.place.kind) || mark.role === "mine" ? level++ : 0 }];
  });
  if (JSON.stringify(found) !== JSON.stringify(drawn.peek())) drawn.value = found;
}

/** @param {Box} box @param {DOMRect} frame @returns {Drawn["side"]} */
function sideOf({ x, width }, frame) {
  const middle = x + width / 2;
  return middle < frame.left + LABEL_HALF_WIDTH ? "left" : middle > frame.right - LABEL_HALF_WIDTH ? "right" : "middle";
}

/**
 * Align a label of tokens with their right edge, unless it would cover the row names and there is more space beyond.
 * @param {Box} box @param {number} right @returns {Drawn["side"]}
 */
function sideOfTokens({ x, width }, right) {
  const left = document.querySelector(".lesson-stage .token-row-window")?.getBoundingClientRect().left ?? 0;
  const space = x + width - left;
  return space < 2 * LABEL_HALF_WIDTH && space < right - x - width ? "left" : "right";
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
function MarkButton({ mark }) {
  const { item, option, place, role, box, level, side } = mark;
  const isSelectable = role === "offered" || role === "chosen";
  const gap = place.kind === "slot" || place.kind === "block" ? FRAME_GAP : 0;
  const stem = place.kind === "bytes" || place.kind === "step" ? level * LEVEL_HEIGHT : 0; // px
  const style = {
    left: `${box.x - gap}px`,
    top: `${box.y - gap + (place.kind === "tokens" ? level * LEVEL_HEIGHT : -stem)}px`,
    width: `${box.width + 2 * gap}px`,
    height: `${place.kind === "tokens" ? LEVEL_HEIGHT : box.height + 2 * gap + stem}px`,
  };
  const raisedStyle = STACKED.has(place.kind) ? {} : { bottom: `calc(100% + ${level * LEVEL_HEIGHT}px)` };
  const text = optionText(item.options[option]);
  return html`<button class="mark" tabindex="-1" data-kind=${place.kind} data-role=${role} data-side=${side}
    data-option=${option}
    style=${style} disabled=${!isSelectable} onClick=${() => choose(item, option)}>${
      isSelectable
        ? STACKED.has(place.kind)
          ? html`<span class="mark-label num">${text}</span>`
          : null
        : html`<span class="mark-label" style=${role === "outcome" ? {} : raisedStyle}><b
          class="num">${text}</b> ${t(`lesson.mark.${role}`)}</span>`
    }</button>`;
}
