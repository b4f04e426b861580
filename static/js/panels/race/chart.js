// Tokens computed so far, a group of bars for each step: the quadratic pile without a cache, the straight one with it.

import { hairline } from "../../kit/canvas.js";
import { alpha, colours } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Picture } from "../../runs/picture.js";
import { grouped, t } from "../../tell/words.js";
import { computedSoFar, expectedComputed } from "./figures.js";
import { names, race, STRATEGIES } from "./model.js";
import { player } from "./player.js";
import { promptLength } from "./words.js";

/**
 * @typedef {import("../../core/log.js").TraceLog} TraceLog
 * @typedef {import("../../runs/picture.js").Size} Size
 * @typedef {import("../../runs/picture.js").Point} Point
 */

const MARGIN = { left: 42, right: 44, top: 8, bottom: 16 };

/** @param {{logs: TraceLog[] | null}} props */
export function RaceChart({ logs }) {
  const step = player.shownStep.value;
  const tipOf = (/** @type {Point} */ point, /** @type {Size} */ size) => {
    const pointed = stepAt(logs, point, size);
    return logs && pointed !== null ? label(logs, pointed) : null;
  };
  const choose = (/** @type {Point} */ point, /** @type {Size} */ size) => {
    const pointed = stepAt(logs, point, size);
    if (pointed !== null) player.look(pointed);
  };
  return html`<section class="race-chart">
    <h3 class="panel-title">
      ${t("race.chart")} <${Fidelity} kind="derived" formula=${t("race.formula.tokens")} />
    </h3>
    <${Picture}
      player=${player}
      name="race-plot"
      label=${logs && step ? label(logs, step) : t("race.chart")}
      paint=${(/** @type {CanvasRenderingContext2D} */ c, /** @type {Size} */ size) => paint(c, size, logs)}
      tipOf=${tipOf}
      choose=${choose}
    />
    <ul class="race-keys">
      ${names().map((name, i) => html`<li><i class=${`key race-bar ${STRATEGIES[i]}`}></i>${name}</li>`)}
    </ul>
  </section>`;
}

/**
 * @param {TraceLog[]} logs
 * @param {number} step
 */
function label(logs, step) {
  const at = (/** @type {TraceLog} */ log) => grouped(computedSoFar(log)[step - 1] ?? computedSoFar(log).at(-1) ?? 0);
  return t("race.chart.label", { step, ...Object.fromEntries(STRATEGIES.map((name, i) => [name, at(logs[i])])) });
}

/**
 * The frame of the whole race is there from the start, so that nothing is rescaled as it grows.
 * @param {TraceLog[]} logs
 * @param {Size} size
 */
function frame(logs, { width, height }) {
  const sequence = [...logs[0].tail.sequences.values()][0];
  const count = Math.max(sequence?.max_tokens ?? 1, race.numSteps.value, 1);
  const { none } = expectedComputed(promptLength() || 1, count);
  const highest = roundAbove(Math.max(none, computedSoFar(logs[0]).at(-1) ?? 0));
  const plot = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  return {
    count,
    highest,
    plot,
    x: (/** @type {number} */ i) => MARGIN.left + (i * plot.width) / count,
    y: (/** @type {number} */ v) => MARGIN.top + plot.height * (1 - v / highest),
  };
}

/**
 * The next even number of two digits and zeros: the half of it is round too.
 * @param {number} value
 */
function roundAbove(value) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.max(2, Math.ceil(value / power / 2) * 2 * power);
}

/**
 * @param {CanvasRenderingContext2D} c
 * @param {Size} size
 * @param {TraceLog[] | null} logs
 */
function paint(c, size, logs) {
  const palette = colours();
  const [left, right, foot] = [MARGIN.left, size.width - MARGIN.right, size.height - MARGIN.bottom];
  if (!logs) return hairline(c, left, foot, right, foot, palette.line);
  const { count, highest, x, y } = frame(logs, size);
  c.fillStyle = palette["ink-3"];
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    const at = y(share * highest);
    hairline(c, left, at, right, at, share ? palette["line-2"] : palette.line);
    c.fillText(grouped(share * highest), left - 5, at);
  }
  c.textBaseline = "alphabetic";
  c.textAlign = "left";
  c.fillText(`${t("race.chart.axis")} 1`, left, size.height - 3);
  c.textAlign = "right";
  c.fillText(String(count), right, size.height - 3);
  const sums = logs.map(computedSoFar);
  const styles = [alpha(palette.q, 0.55), palette["ink-3"], palette.k];
  for (let i = 0; i < player.shownStep.value; i++) paintGroup(c, sums, i, x, y, styles);
  paintValues(c, sums, x, y);
}

/**
 * No cache behind, wide; the two with a cache before it, half the width each.
 * @param {CanvasRenderingContext2D} c
 * @param {number[][]} sums
 * @param {number} i step, from 0
 * @param {(step: number) => number} x
 * @param {(value: number) => number} y
 * @param {string[]} styles
 */
function paintGroup(c, sums, i, x, y, styles) {
  const [left, group] = [x(i), x(1) - x(0)];
  const wide = Math.max(group - (group >= 4 ? 1 : 0), 0.75);
  [wide, wide / 2, wide / 2].forEach((width, lane) => {
    const value = sums[lane][i];
    if (value === undefined) return;
    c.fillStyle = styles[lane];
    c.fillRect(left + (lane === 2 ? wide / 2 : 0), y(value), Math.max(width, 0.75), y(0) - y(value));
  });
}

/**
 * The values of the step shown, right of its bars: no cache above, with a cache at the foot.
 * @param {CanvasRenderingContext2D} c
 * @param {number[][]} sums
 * @param {(step: number) => number} x
 * @param {(value: number) => number} y
 */
function paintValues(c, sums, x, y) {
  const step = player.shownStep.value;
  if (!step) return;
  const [none, , paged] = sums.map((values) => values[step - 1] ?? values.at(-1) ?? 0);
  c.textAlign = "left";
  c.font = `600 ${c.font}`;
  c.fillStyle = colours().ink;
  c.fillText(grouped(none), x(step) + 4, Math.max(MARGIN.top + 8, Math.min(y(none) + 4, y(0) - 15)));
  c.fillText(grouped(paged), x(step) + 4, y(0) - 2);
}

/**
 * @param {TraceLog[] | null} logs
 * @param {Point} point
 * @param {Size} size
 */
function stepAt(logs, point, size) {
  if (!logs || !race.numSteps.value) return null;
  const { count, plot } = frame(logs, size);
  const step = Math.floor(((point.x - MARGIN.left) / plot.width) * count) + 1;
  return step >= 1 && step <= race.numSteps.value ? step : null;
}
