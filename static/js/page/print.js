// Printing: in the light theme, with canvases at fixed sizes, as the browser lays the page out for paper without
// waiting for them to be repainted.

import { measureNow, sharpen } from "../kit/canvas.js";
import { themeChanged } from "../kit/colour.js";
import { flushNow } from "../kit/frame.js";

const PAINTED = ".token-row, .matrix .panel-canvas, .pool-scroll";
const SHEET = 1000; // px; width of a sheet in css/print.css
const COLUMN = 420; // px; width of the column with the matrix
const RATIO = 3; // canvas pixels per px
const MIN_ROW_HEIGHT = 330; // px; of the token row on paper

export function followPrinting() {
  const root = document.documentElement;
  /** @type {(() => void) | null} */
  let restore = null;
  addEventListener("beforeprint", () => {
    if (restore) return;
    const shown = root.dataset.theme ?? "auto";
    document.getElementById("print-link")?.replaceChildren(location.href);
    root.dataset.printing = ""; // css/print.css shows the same regions on a phone
    const release = freeze();
    repaint("light", RATIO);
    fit();
    restore = () => {
      release();
      delete root.dataset.printing;
      repaint(shown, 1);
    };
  });
  addEventListener("afterprint", () => {
    restore?.();
    restore = null;
  });

  /** @type {(theme: string, ratio: number) => void} */
  function repaint(theme, ratio) {
    sharpen(ratio);
    root.dataset.theme = theme;
    themeChanged();
    measureNow();
    flushNow();
  }
}

/** Fix the sizes of canvases; the token row gets the sheet's width and a legible height. */
function freeze() {
  /** @type {NodeListOf<HTMLElement>} */
  const painted = document.querySelectorAll(PAINTED);
  const changed = Array.from(painted, (element) => {
    const minimum = element.matches(".token-row") ? { width: SHEET, height: MIN_ROW_HEIGHT } : { width: 0, height: 0 };
    return {
      element,
      width: Math.max(minimum.width, element.offsetWidth),
      height: Math.max(minimum.height, element.offsetHeight),
    };
  });
  for (const { element, width, height } of changed)
    Object.assign(element.style, { width: `${width}px`, height: `${height}px` });
  return () => {
    for (const { element } of changed) Object.assign(element.style, { width: "", height: "" });
    for (const element of zoomed()) element.style.zoom = "";
  };
}

/** Return the elements that are scaled for the sheet. */
const zoomed = () =>
  /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#region-stage, .matrix .panel-canvas")]);

/** Scale the stage down to the sheet, and the matrix up to its column. */
function fit() {
  const stage = document.getElementById("region-stage");
  const row = /** @type {HTMLElement | null} */ (document.querySelector("#region-stage .token-row"));
  if (stage) stage.style.zoom = String(Math.min(1, SHEET / Math.max(1, row?.offsetWidth ?? 0)));
  const matrix = /** @type {HTMLElement | null} */ (document.querySelector(".matrix .panel-canvas"));
  if (matrix?.offsetWidth) matrix.style.zoom = String(Math.min(3, COLUMN / matrix.offsetWidth));
}
