// Dragging by pointer. A ghost follows the pointer, and the drop handler receives the element below it.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { html } from "../../kit/html.js";

/** @typedef {{x: number, y: number, text: string, moved: boolean}} Drag window pixels */

const TAP_DISTANCE = 6; // px; a press that moves farther is a drag

/** @type {import("../../../vendor/signals/signals.js").Signal<Drag | null>} */
const drag = signal(null);

/** Whether an element is being dragged. Remains true during the click event that ends the drag. */
export const dragged = computed(() => drag.value?.moved ?? false);

/**
 * Return the handlers of a draggable element. A touch scrolls unless it starts on a part with `data-grip`.
 * @param {string} text text of the ghost
 * @param {(under: Element | null, y: number) => void} onDrop
 */
export const draggable = (text, onDrop) => ({
  /** @param {PointerEvent} event */
  onPointerDown: (event) => {
    const [target, element] = [/** @type {Element} */ (event.target), /** @type {Element} */ (event.currentTarget)];
    if (event.button || (event.pointerType === "touch" && !target.closest("[data-grip]"))) return;
    if (target !== element && target.closest("button") !== element.closest("button")) return; // an inner button
    drag.value = { x: event.clientX, y: event.clientY, text, moved: false };
    element.setPointerCapture(event.pointerId);
  },
  /** @param {PointerEvent} event */
  onPointerMove: ({ clientX: x, clientY: y }) => {
    const now = drag.value;
    if (now && (now.moved || Math.hypot(x - now.x, y - now.y) > TAP_DISTANCE))
      drag.value = { ...now, x, y, moved: true };
  },
  /** @param {PointerEvent} event */
  onPointerUp: ({ clientX, clientY }) => {
    if (!drag.value?.moved) return void (drag.value = null);
    onDrop(document.elementFromPoint(clientX, clientY), clientY);
    setTimeout(() => (drag.value = null)); // after the click event that follows
  },
  onPointerCancel: () => (drag.value = null),
});

/** Ghost of the dragged element. @param {{kind: string}} props */
export const Ghost = ({ kind }) =>
  drag.value?.moved
    ? html`<span class=${`drag-ghost ${kind}`} style=${{
        left: `${drag.value.x}px`,
        top: `${drag.value.y}px`,
      }}>${drag.value.text}</span>`
    : null;
