// Chart with a group of bars per step. The bars of strategies show the tokens computed so far (quadratic without a
// cache, linear with one), of caches the bytes copied so far (quadratic for concatenation), of models the bytes held.

import { bytesText, grouped, t } from "../../i18n/words.js";
import { hairline } from "../../kit/canvas.js";
import { alpha, colours } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Picture } from "../../runs/picture.js";
import { cumulativeComputed, cumulativeCopied, expectedComputed, expectedCopied, heldInEach } from "./figures.js";
import { lanes, names, race, racing } from "./model.js";
import { player } from "./player.js";
import { promptLength } from "./words.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Palette} from "../../kit/colour.js" */
/** @import {Point, Size} from "../../runs/picture.js" */

const MARGIN = { top: 8, bottom: 16 };
/** px left and right of the bars for axis labels and the shown step's values. Bytes need more, for their unit. */
const SIDE_MARGINS = { tokens: { left: 42, right: 44 }, bytes: { left: 64, right: 62 } };

/**
 * Chart of each set. `title` is a message key, `values` the value of each step of a lane, `expectedMax` the maximum of
 * the first lane in `count` steps after a prompt of `prompt` tokens, `styles` the colours by lane.
 *
 * @typedef {{
 *   title: string, formula: string, sides: {left: number, right: number}, text: (value: number) => string,
 *   values: (log: TraceLog) => number[], expectedMax: (log: TraceLog, prompt: number, count: number) => number,
 *   styles: (palette: Palette) => string[],
 * }} Drawn
 * @type {Record<import("./model.js").SetName, Drawn>}
 */
const CHARTS = {
  strategies: {
    title: "race.chart",
    formula: "race.formula.tokens",
    sides: SIDE_MARGINS.tokens,
    text: grouped,
    values: cumulativeComputed,
    expectedMax: (_, prompt, count) => expectedComputed(prompt, count).none,
    styles: (palette) => [alpha(palette.q, 0.55), palette["ink-3"], palette.k],
  },
  caches: {
    title: "race.chart.copied",
    formula: "race.formula.tokens",
    sides: SIDE_MARGINS.bytes,
    text: bytesText,
    values: cumulativeCopied,
    expectedMax: (log, prompt, count) => expectedCopied(prompt, count) * log.header.kv_bytes_per_token,
    styles: (palette) => [alpha(palette.q, 0.55), palette.q, palette["ink-3"], palette.k],
  },
  drafts: {
    title: "race.chart",
    formula: "race.formula.tokens",
    sides: SIDE_MARGINS.tokens,
    text: grouped,
    values: cumulativeComputed,
    expectedMax: (_, prompt, count) => prompt + 4 * count, // some drafts are accepted, most are not
    styles: (palette) => [alpha(palette.q, 0.55), palette["ink-3"], palette.k],
  },
  models: {
    title: "race.chart.held",
    formula: "race.formula.cache",
    sides: SIDE_MARGINS.bytes,
    text: bytesText,
    values: heldInEach,
    expectedMax: (log, prompt, count) => expectedHeld(log, prompt + count - 1),
    styles: (palette) => [alpha(palette.k, 0.4), palette["ink-3"], palette.k, palette.v],
  },
};
const chart = () => CHARTS[racing.value];

/** Return the bytes of the blocks for `positions` positions. @param {TraceLog} log @param {number} positions */
const expectedHeld = (log, positions) =>
  Math.ceil(positions / log.tail.block_size) * log.tail.block_size * log.header.kv_bytes_per_token;

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
      ${title()} <${Fidelity} kind="derived" formula=${t(chart().formula)} />
    </h3>
    <${Picture}
      player=${player}
      name="race-plot"
      label=${logs && step ? label(logs, step) : title()}
      paint=${(/** @type {CanvasRenderingContext2D} */ c, /** @type {Size} */ size) => paint(c, size, logs)}
      tipOf=${tipOf}
      choose=${choose}
    />
    <ul class="race-keys">
      ${names().map((name, i) => html`<li><i class=${`key race-bar ${lanes.value[i]}`}></i>${name}</li>`)}
    </ul>
  </section>`;
}

/** @param {TraceLog[]} logs @param {number} step */
function label(logs, step) {
  const at = (/** @type {TraceLog} */ log) => text(seriesOf(log)[step - 1] ?? seriesOf(log).at(-1) ?? 0);
  const values = names().map((name, i) => t("race.chart.value", { name, value: at(logs[i]) }));
  return t("race.chart.label", { title: title(), step, values: values.join(t("runs.comma")) });
}

/**
 * Compute the axes for the complete race, so that they do not change while it runs.
 * @param {TraceLog[]} logs @param {Size} size
 */
function frame(logs, { width, height }) {
  const sequence = [...logs[0].tail.sequences.values()][0];
  const count = Math.max(sequence?.max_tokens ?? 1, race.numSteps.value, 1);
  const prompt = promptLength() || 1;
  const highest = roundAbove(Math.max(chart().expectedMax(logs[0], prompt, count), seriesOf(logs[0]).at(-1) ?? 0));
  const { left, right } = chart().sides;
  const plot = { width: width - left - right, height: height - MARGIN.top - MARGIN.bottom };
  return {
    count,
    highest,
    plot,
    x: (/** @type {number} */ i) => left + (i * plot.width) / count,
    y: (/** @type {number} */ v) => MARGIN.top + plot.height * (1 - v / highest),
  };
}

/** Round up to an even number of two significant digits, so that its half is round too. @param {number} value */
function roundAbove(value) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.max(2, Math.ceil(value / power / 2) * 2 * power);
}

/** @param {CanvasRenderingContext2D} c @param {Size} size @param {TraceLog[] | null} logs */
function paint(c, size, logs) {
  const palette = colours();
  const [left, right, foot] = [chart().sides.left, size.width - chart().sides.right, size.height - MARGIN.bottom];
  if (!logs) return hairline(c, left, foot, right, foot, palette.line);
  const { count, highest, x, y } = frame(logs, size);
  c.fillStyle = palette["ink-3"];
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    const at = y(share * highest);
    hairline(c, left, at, right, at, share ? palette["line-2"] : palette.line);
    c.fillText(text(share * highest), left - 5, at);
  }
  c.textBaseline = "alphabetic";
  c.textAlign = "left";
  c.fillText(`${t("race.chart.axis")} 1`, left, size.height - 3);
  c.textAlign = "right";
  c.fillText(String(count), right, size.height - 3);
  const series = logs.map(seriesOf);
  for (let i = 0; i < player.shownStep.value; i++) paintGroup(c, series, i, x, y, chart().styles(palette));
  paintValues(c, series, x, y);
}

const title = () => t(chart().title);

/** Values of each step. @param {TraceLog} log */
const seriesOf = (log) => chart().values(log);

/** @param {number} value */
const text = (value) => chart().text(value);

/**
 * Paint the lane without a cache at full width, and in front of it the two lanes with a cache at half width each. The
 * lanes of the set `caches` are side by side.
 * @param {CanvasRenderingContext2D} c @param {number[][]} series
 * @param {number} i index of the step
 * @param {(step: number) => number} x @param {(value: number) => number} y @param {string[]} styles
 */
function paintGroup(c, series, i, x, y, styles) {
  const [left, group] = [x(i), x(1) - x(0)];
  const wide = Math.max(group - (group >= 4 ? 1 : 0), 0.75);
  const numBeside = styles.length > 3 ? styles.length : styles.length - 1; // the first of three is behind
  styles.forEach((style, lane) => {
    const value = series[lane]?.[i];
    if (value === undefined) return;
    const place = lane - (styles.length - numBeside); // -1: behind
    c.fillStyle = style;
    const width = Math.max(place < 0 ? wide : wide / numBeside, 0.75);
    c.fillRect(left + Math.max(place, 0) * (wide / numBeside), y(value), width, y(0) - y(value));
  });
}

/**
 * Paint the values of the shown step at the right of its bars: of the first lane at the top, of the last at the bottom.
 * @param {CanvasRenderingContext2D} c @param {number[][]} series @param {(step: number) => number} x
 * @param {(value: number) => number} y
 */
function paintValues(c, series, x, y) {
  const step = player.shownStep.value;
  if (!step) return;
  const now = series.map((values) => values[step - 1] ?? values.at(-1) ?? 0);
  const [none, paged] = [now[0], now[now.length - 1]];
  c.textAlign = "left";
  c.font = `600 ${c.font}`;
  c.fillStyle = colours().ink;
  c.fillText(text(none), x(step) + 4, Math.max(MARGIN.top + 8, Math.min(y(none) + 4, y(0) - 15)));
  c.fillText(text(paged), x(step) + 4, y(0) - 2);
}

/** @param {TraceLog[] | null} logs @param {Point} point @param {Size} size */
function stepAt(logs, point, size) {
  if (!logs || !race.numSteps.value) return null;
  const { count, plot } = frame(logs, size);
  const step = Math.floor(((point.x - chart().sides.left) / plot.width) * count) + 1;
  return step >= 1 && step <= race.numSteps.value ? step : null;
}
