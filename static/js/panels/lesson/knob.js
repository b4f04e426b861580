// A number in a sentence that is a setting. It is changed by dragging or with the arrow keys, and the lesson's run is
// recomputed.

import { useRef, useState } from "../../../vendor/preact/hooks.js";
import { change } from "../../control/lesson.js";
import { optionLabel } from "../../i18n/options.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { currentLesson } from "../../state/lessons.js";

const NOTCH = 14; // px of dragging per value
const CALM = 500; // ms without a key press before the run is recomputed

/** Values of settings that do not take all whole numbers. @type {Record<string, number[]>} */
const LADDERS = { block_size: [1, 2, 4, 8, 16, 32] };

/** Return the value `by` steps away. @param {string} name @param {number} value @param {number} by */
function away(name, value, by) {
  const ladder = LADDERS[name];
  if (!ladder) return Math.max(1, value + by);
  const at = ladder.findIndex((one) => one >= value);
  return ladder[Math.max(0, Math.min(ladder.length - 1, (at < 0 ? ladder.length - 1 : at) + by))];
}

/** @param {{name: string, text: string}} props `text`: the value as written in the sentence */
export function Knob({ name, text }) {
  if (currentLesson.value?.source !== "live")
    return html`<b class="num" title=${t("lesson.knob_recorded")}>${text}</b>`;
  return html`<${Live} name=${name} text=${text} />`;
}

/** @param {{name: string, text: string}} props */
function Live({ name, text }) {
  const changes = currentLesson.value?.changes ?? {};
  const now = changes[name] ?? Number.parseInt(text, 10);
  const [wanted, want] = useState(/** @type {number | null} */ (null));
  const from = useRef(/** @type {{x: number, value: number} | null} */ (null));
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const shown = wanted ?? now;
  /** @param {number} value */
  const take = (value) => {
    want(null);
    if (value !== now) change({ ...changes, [name]: value });
  };
  /** @param {PointerEvent} event */
  const hold = (event) => {
    /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
    from.current = { x: event.clientX, value: now };
  };
  /** @param {PointerEvent} event */
  const drag = (event) => {
    if (from.current) want(away(name, from.current.value, Math.round((event.clientX - from.current.x) / NOTCH)));
  };
  const endDrag = () => {
    from.current = null;
    if (wanted !== null) take(wanted);
  };
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const value = away(name, shown, by);
    want(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => take(value), CALM);
  };
  return html`<span class="lesson-knob num" role="spinbutton" tabindex="0" data-arrows data-setting=${name}
    aria-label=${optionLabel(name)} aria-valuenow=${shown} title=${t("lesson.knob")} onPointerDown=${hold}
    onPointerMove=${drag} onPointerUp=${endDrag} onPointerCancel=${endDrag} onKeyDown=${press}>${shown}</span>`;
}
