// A setting's value within a sentence. It is changed by dragging or with the arrow keys, and the lesson's run is
// recomputed.

import { useRef, useState } from "../../../vendor/preact/hooks.js";
import { change } from "../../control/lesson.js";
import { optionLabel } from "../../i18n/options.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { currentLesson } from "../../state/lessons.js";

const PX_PER_VALUE = 14; // of dragging
const DELAY_MS = 500; // after the last key press, before the run is recomputed

/** Allowed values of settings that do not allow all positive integers. @type {Record<string, number[]>} */
const ALLOWED_VALUES = { block_size: [1, 2, 4, 8, 16, 32] };

/** Return the value `by` steps away. @param {string} name @param {number} value @param {number} by */
function stepped(name, value, by) {
  const allowed = ALLOWED_VALUES[name];
  if (!allowed) return Math.max(1, value + by);
  const at = allowed.findIndex((one) => one >= value);
  return allowed[Math.max(0, Math.min(allowed.length - 1, (at < 0 ? allowed.length - 1 : at) + by))];
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
  const [draft, setDraft] = useState(/** @type {number | null} */ (null));
  const dragStart = useRef(/** @type {{x: number, value: number} | null} */ (null));
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const shown = draft ?? now;
  /** @param {number} value */
  const commit = (value) => {
    setDraft(null);
    if (value !== now) change({ ...changes, [name]: value });
  };
  /** @param {PointerEvent} event */
  const startDrag = (event) => {
    /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
    dragStart.current = { x: event.clientX, value: now };
  };
  /** @param {PointerEvent} event */
  const drag = (event) => {
    if (!dragStart.current) return;
    const { x, value } = dragStart.current;
    setDraft(stepped(name, value, Math.round((event.clientX - x) / PX_PER_VALUE)));
  };
  const endDrag = () => {
    dragStart.current = null;
    if (draft !== null) commit(draft);
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const value = stepped(name, shown, by);
    setDraft(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => commit(value), DELAY_MS);
  };
  return html`<span class="lesson-knob num" role="spinbutton" tabindex="0" data-arrows data-setting=${name}
    aria-label=${optionLabel(name)} aria-valuenow=${shown} title=${t("lesson.knob")} onPointerDown=${startDrag}
    onPointerMove=${drag} onPointerUp=${endDrag} onPointerCancel=${endDrag} onKeyDown=${onKey}>${shown}</span>`;
}
