// The strip's tokens move by style variables, and are drawn at once for paper.

import { options } from "../../../vendor/preact/preact.js";
import { usePainter } from "../../kit/canvas.js";
import { flushNow } from "../../kit/frame.js";
import { phase, phasesNow } from "../../state/stage_moment.js";

/**
 * Draw now what a change asks for: paper does not wait.
 *
 * @param {() => void} change
 */
export function atOnce(change) {
  const later = options.debounceRendering;
  options.debounceRendering = (/** @type {() => void} */ render) => render();
  change();
  options.debounceRendering = later;
  flushNow();
}

/** The progress of two phases as style variables of the tokens, so that a motion draws nothing of the document anew. */
export function usePhaseVariables() {
  return usePainter(
    () => [phase("schedule"), phase("sample")],
    (element) => {
      const { schedule, sample } = phasesNow();
      set(element, "--scheduled", schedule);
      set(element, "--sampled", sample);
    },
  );
}

/**
 * @param {HTMLElement} element
 * @param {string} name
 * @param {number} value
 */
function set(element, name, value) {
  const text = value.toFixed(3);
  if (element.style.getPropertyValue(name) !== text) element.style.setProperty(name, text);
}
