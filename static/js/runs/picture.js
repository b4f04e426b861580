// Canvas of the lanes, repainted when they take a step, when another step is shown, and on changes of theme or
// language.

import { language } from "../i18n/language.js";
import { prepare, usePainter } from "../kit/canvas.js";
import { themeVersion } from "../kit/colour.js";
import { html } from "../kit/html.js";
import { hideTip, tipAt } from "../kit/tooltip.js";

/**
 * @typedef {{width: number, height: number}} Size in CSS pixels
 * @typedef {{x: number, y: number}} Point in the picture
 */

/**
 * Picture. `tipOf(point, size)`: tooltip at a point, or null; `choose(point, size)`: called for a click.
 * @param {{
 *   player: import("./player.js").LanesPlayer,
 *   name: string,
 *   label: string,
 *   paint: (context: CanvasRenderingContext2D, size: Size) => void,
 *   tipOf?: (point: Point, size: Size) => string | null,
 *   choose?: (point: Point, size: Size) => void,
 *   [attribute: `data-${string}`]: string | number,
 * }} props
 */
export function Picture({ player, name, label, paint, tipOf, choose, ...data }) {
  const ref = usePainter(
    () => [
      player.lanes.logs.value,
      player.lanes.numSteps.value,
      player.shownStep.value,
      themeVersion.value,
      language.value,
    ],
    (/** @type {HTMLElement} */ box, /** @type {Size} */ { width, height }) => {
      const canvas = /** @type {HTMLCanvasElement} */ (box.querySelector("canvas"));
      const context = prepare(canvas, width, height);
      context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
      paint(context, { width, height });
    },
  );
  const point = (/** @type {Pointed} */ event) => {
    const text = tipOf?.(...placeOf(event));
    if (text) tipAt(event.clientX, event.clientY, [text]);
    else hideTip();
  };
  return html`<div
    class=${`runs-picture ${name}`}
    ref=${ref}
    role="img"
    aria-label=${label}
    onPointerMove=${tipOf && point}
    onPointerLeave=${tipOf && hideTip}
    onClick=${choose && ((/** @type {Pointed} */ event) => choose(...placeOf(event)))}
    ...${data}
  ><canvas aria-hidden="true"></canvas></div>`;
}

/** @typedef {MouseEvent & {currentTarget: HTMLElement}} Pointed */

/**
 * Return the position of an event in the picture, and the picture's size.
 * @param {Pointed} event
 * @returns {[Point, Size]}
 */
function placeOf(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return [
    { x: event.clientX - box.left, y: event.clientY - box.top },
    { width: box.width, height: box.height },
  ];
}
