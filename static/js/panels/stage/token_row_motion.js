// Motion of the token row's tokens through CSS variables, and synchronous rendering for print.

import { options } from "../../../vendor/preact/preact.js";
import { usePainter } from "../../kit/canvas.js";
import { flushNow } from "../../kit/frame.js";
import { phase, phasesNow } from "../../state/stage_playhead.js";

/** Render a change synchronously, because printing does not wait. @param {() => void} change */
export function renderSync(change) {
  const previous = options.debounceRendering;
  options.debounceRendering = (/** @type {() => void} */ render) => render();
  change();
  options.debounceRendering = previous;
  flushNow();
}

/** Publish the progress of two phases as CSS variables of the tokens, so that motion does not re-render them. */
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

/** @param {HTMLElement} element @param {string} name @param {number} value */
function set(element, name, value) {
  const text = value.toFixed(3);
  if (element.style.getPropertyValue(name) !== text) element.style.setProperty(name, text);
}
