// Chart with a group of bars per step. Tokens computed so far: quadratic without a cache, linear with it. For caches,
// bytes copied so far: quadratic for concatenation. For models, bytes held.

import { bytesText, grouped, t } from "../../i18n/words.js";
import { hairline } from "../../kit/canvas.js";
import { alpha, colours } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Picture } from "../../runs/picture.js";
import { computedSoFar, copiedSoFar, expectedComputed, expectedCopied, heldInEach } from "./figures.js";
import { lanes, names, race, racing } from "./model.js";
import { player } from "./player.js";
import { promptLength } from "./words.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Palette} from "../../kit/colour.js" */
/** @import {Point, Size} from "../../runs/picture.js" */

const MARGIN = { top: 8, bottom: 16 };
/** px left and right of the bars for axis labels and the shown step's values; bytes have a unit. */
const SIDES = { tokens: { left: 42, right: 44 }, bytes: { left: 64, right: 62 } };

/**
 * Chart of each set. `title`: message key; `values`: value of each step of a lane; `most`: expected maximum of the
 * first lane in `count` steps after a prompt of `prompt` tokens; `styles`: by lane.
 *
 * @typedef {{
 *   title: string, formula: string, sides: {left: number, right: number}, text: (value: number) => string,
 *   values: (log: TraceLog) => number[], most: (log: TraceLog, prompt: number, count: number) => number,
 *   styles: (palette: Palette) => string[],
 * }} Drawn
 * @type {Record<import("./model.js").SetName, Drawn>}
 */
const DRAWN = {
  strategies: {
    title: "race.chart",
    formula: "race.formula.tokens",
    sides: SIDES.tokens,
    text: grouped,
    values: computedSoFar,
    most: (_, prompt, count) => expectedComputed(prompt, count).none,
    styles: (palette) => [alpha(palette.q, 0.55), palette["ink-3"], palette.k],
  },
  caches: {
    title: "race.chart.copied",
    formula: "race.formula.tokens",
    sides: SIDES.bytes,
    text: bytesText,
    values: copiedSoFar,
    most: (log, prompt, count) => expectedCopied(prompt, count) * log.header.kv_bytes_per_token,
    styles: (palette) => [alpha(palette.q, 0.55), palette.q, palette["ink-3"], palette.k],
  },
  drafts: {
    title: "race.chart",
    formula: "race.formula.tokens",
    sides: SIDES.tokens,
    text: grouped,
    values: computedSoFar,
    most: (_, prompt, count) => prompt + 4 * count, // some drafts are accepted, most are not
    styles: (palette) => [alpha(palette.q, 0.55), palette["ink-3"], palette.k],
  },
  models: {
    title: "race.chart.held",
    formula: "race.formula.cache",
    sides: SIDES.bytes,
    text: bytesText,
    values: heldInEach,
    most: (log, prompt, count) => expectedHeld(log, prompt + count - 1),
    styles: (palette) => [alpha(palette.k, 0.4), palette["ink-3"], palette.k, palette.v],
  },
};
const drawn = () => DRAWN[racing.value];

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
      ${title()} <${Fidelity} kind="derived" formula=${t(drawn().formula)} />
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
  const at = (/** @type {TraceLog} */ log) => text(sums(log)[step - 1] ?? sums(log).at(-1) ?? 0);
  const values = names().map((name, i) => t("race.chart.value", { name, value: at(logs[i]) }));
  return t("race.chart.label", { title: title(), step, values: values.join(t("runs.comma")) });
}

/**
 * Compute the axes for the whole race from the start, so that nothing is rescaled as it grows.
 * @param {TraceLog[]} logs
 * @param {Size} size
 */
function frame(logs, { width, height }) {
  const sequence = [...logs[0].tail.sequences.values()][0];
  const count = Math.max(sequence?.max_tokens ?? 1, race.numSteps.value, 1);
  const prompt = promptLength() || 1;
  const highest = roundAbove(Math.max(drawn().most(logs[0], prompt, count), sums(logs[0]).at(-1) ?? 0));
  const { left, right } = drawn().sides;
  const plot = { width: width - left - right, height: height - MARGIN.top - MARGIN.bottom };
  return {
    count,
    highest,
    plot,
    x: (/** @type {number} */ i) => left + (i * plot.width) / count,
    y: (/** @type {number} */ v) => MARGIN.top + plot.height * (1 - v / highest),
  };
}

/** Round up to an even number of two significant digits, whose half is round too. @param {number} value */
function roundAbove(value) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.max(2, Math.ceil(value / power / 2) * 2 * power);
}

/** @param {CanvasRenderingContext2D} c @param {Size} size @param {TraceLog[] | null} logs */
function paint(c, size, logs) {
  const palette = colours();
  const [left, right, foot] = [drawn().sides.left, size.width - drawn().sides.right, size.height - MARGIN.bottom];
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
  const found = logs.map(sums);
  for (let i = 0; i < player.shownStep.value; i++) paintGroup(c, found, i, x, y, drawn().styles(palette));
  paintValues(c, found, x, y);
}

const title = () => t(drawn().title);

/** Values of each step. @param {TraceLog} log */
const sums = (log) => drawn().values(log);

/** @param {number} value */
const text = (value) => drawn().text(value);

/**
 * Paint the lane without a cache behind at full width, and the two lanes with a cache in front at half width each.
 * Caches are side by side.
 * @param {CanvasRenderingContext2D} c
 * @param {number[][]} sums
 * @param {number} i index of the step
 * @param {(step: number) => number} x
 * @param {(value: number) => number} y
 * @param {string[]} styles
 */
function paintGroup(c, sums, i, x, y, styles) {
  const [left, group] = [x(i), x(1) - x(0)];
  const wide = Math.max(group - (group >= 4 ? 1 : 0), 0.75);
  const beside = styles.length > 3 ? styles.length : styles.length - 1; // the first of three lanes is behind the others
  styles.forEach((style, lane) => {
    const value = sums[lane]?.[i];
    if (value === undefined) return;
    const place = lane - (styles.length - beside); // -1: behind
    c.fillStyle = style;
    const width = Math.max(place < 0 ? wide : wide / beside, 0.75);
    c.fillRect(left + Math.max(place, 0) * (wide / beside), y(value), width, y(0) - y(value));
  });
}

/**
 * Paint the values of the shown step right of its bars: without a cache at the top, with a cache at the bottom.
 * @param {CanvasRenderingContext2D} c
 * @param {number[][]} sums
 * @param {(step: number) => number} x
 * @param {(value: number) => number} y
 */
function paintValues(c, sums, x, y) {
  const step = player.shownStep.value;
  if (!step) return;
  const now = sums.map((values) => values[step - 1] ?? values.at(-1) ?? 0);
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
  const step = Math.floor(((point.x - drawn().sides.left) / plot.width) * count) + 1;
  return step >= 1 && step <= race.numSteps.value ? step : null;
}
