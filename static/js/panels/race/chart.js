// Tokens computed so far, a group of bars for each step: the quadratic pile without a cache, the straight one with it.

import { hairline, prepare, usePainter } from "../../kit/canvas.js";
import { alpha, colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { Fidelity, hideTip, tipAt } from "../../kit/parts.js";
import { computedSoFar, expectedComputed } from "../../runs/race.js";
import { language } from "../../tell/language.js";
import { grouped, t } from "../../tell/words.js";
import { race, STRATEGIES } from "./model.js";

const MARGIN = { left: 42, right: 44, top: 8, bottom: 16 };

export function RaceChart() {
  const ref = usePainter(
    () => [race.logs.value, race.numSteps.value, race.shownStep.value, themeVersion.value, language.value],
    (box, { width, height }) => paint(box.querySelector("canvas"), width, height),
  );
  const all = race.logs.value;
  const step = race.shownStep.value;
  return html`<section class="race-chart">
    <h3 class="panel-title">${t("race.chart")} <${Fidelity} kind="derived" formula=${t("race.formula.tokens")} /></h3>
    <div
      class="race-plot"
      ref=${ref}
      role="img"
      aria-label=${all && step ? label(all, step) : t("race.chart")}
      onPointerMove=${point}
      onPointerLeave=${hideTip}
      onClick=${choose}
    >
      <canvas aria-hidden="true"></canvas>
    </div>
    <ul class="race-keys">
      ${STRATEGIES.map((name) => html`<li><i class=${`key race-bar ${name}`}></i>${t(`race.${name}`)}</li>`)}
    </ul>
  </section>`;
}

function label(all, step) {
  const at = (log) => grouped(computedSoFar(log)[step - 1] ?? computedSoFar(log).at(-1) ?? 0);
  return t("race.chart.label", { step, ...Object.fromEntries(STRATEGIES.map((name, i) => [name, at(all[i])])) });
}

/** The frame of the whole race is there from the start, so that nothing is rescaled as it grows. */
function frame(all, width, height) {
  const sequence = [...all[0].tail.sequences.values()][0];
  const count = Math.max(sequence?.max_tokens ?? 1, race.numSteps.value, 1);
  const { none } = expectedComputed(sequence?.num_prompt_tokens ?? 1, count);
  const highest = roundAbove(Math.max(none, computedSoFar(all[0]).at(-1) ?? 0));
  const plot = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  return {
    count,
    highest,
    plot,
    x: (i) => MARGIN.left + (i * plot.width) / count,
    y: (v) => MARGIN.top + plot.height * (1 - v / highest),
  };
}

/** The next even number of two digits and zeros: the half of it is round too. */
function roundAbove(value) {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.max(2, Math.ceil(value / power / 2) * 2 * power);
}

function paint(canvas, width, height) {
  const c = prepare(canvas, width, height);
  const all = race.logs.value;
  const palette = colours();
  if (!all)
    return void hairline(
      c,
      MARGIN.left,
      height - MARGIN.bottom,
      width - MARGIN.right,
      height - MARGIN.bottom,
      palette.line,
    );
  const { count, highest, x, y } = frame(all, width, height);
  c.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  c.fillStyle = palette["ink-3"];
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    const at = y(share * highest);
    hairline(c, MARGIN.left, at, width - MARGIN.right, at, share ? palette["line-2"] : palette.line);
    c.fillText(grouped(share * highest), MARGIN.left - 5, at);
  }
  c.textBaseline = "alphabetic";
  c.textAlign = "left";
  c.fillText(`${t("race.chart.axis")} 1`, MARGIN.left, height - 3);
  c.textAlign = "right";
  c.fillText(String(count), width - MARGIN.right, height - 3);
  const sums = all.map(computedSoFar);
  const group = x(1) - x(0);
  const styles = barStyles(palette);
  for (let i = 0; i < race.shownStep.value; i++) paintGroup(c, sums, i, group, x(i), y, styles);
  paintValues(c, palette, sums, x, y);
}

/** No cache behind, wide; the two with a cache before it, half the width each. */
function paintGroup(c, sums, i, group, left, y, styles) {
  const wide = Math.max(group - (group >= 4 ? 1 : 0), 0.75);
  const bar = (values, from, width, style) => {
    if (values[i] === undefined) return;
    c.fillStyle = style;
    c.fillRect(left + from, y(values[i]), Math.max(width, 0.75), y(0) - y(values[i]));
  };
  bar(sums[0], 0, wide, styles[0]);
  bar(sums[1], 0, wide / 2, styles[1]);
  bar(sums[2], wide / 2, wide / 2, styles[2]);
}

const barStyles = (palette) => [alpha(palette.q, 0.55), palette["ink-3"], palette.k];

/** The values of the step shown, right of its bars: no cache above, with a cache at the foot. */
function paintValues(c, palette, sums, x, y) {
  const step = race.shownStep.value;
  if (!step) return;
  const [none, , paged] = sums.map((values) => values[step - 1] ?? values.at(-1) ?? 0);
  c.textAlign = "left";
  c.font = `600 ${c.font}`;
  c.fillStyle = palette.ink;
  c.fillText(grouped(none), x(step) + 4, Math.max(MARGIN.top + 8, Math.min(y(none) + 4, y(0) - 15)));
  c.fillText(grouped(paged), x(step) + 4, y(0) - 2);
}

function stepAt(event) {
  const box = event.currentTarget.getBoundingClientRect();
  if (!race.logs.value || !race.numSteps.value) return null;
  const { count, plot } = frame(race.logs.value, box.width, box.height);
  const step = Math.floor(((event.clientX - box.left - MARGIN.left) / plot.width) * count) + 1;
  return step >= 1 && step <= race.numSteps.value ? step : null;
}

function point(event) {
  const step = stepAt(event);
  if (step === null) hideTip();
  else tipAt(event.clientX, event.clientY, [label(race.logs.value, step)]);
}

function choose(event) {
  const step = stepAt(event);
  if (step !== null) race.look(step);
}
