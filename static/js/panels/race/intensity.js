// Arithmetic intensity of each lane's step in operations per byte, on one scale with the machine's ridge point.

import { ridge } from "../../core/metrics.js";
import { intensityText, t } from "../../i18n/words.js";
import { hairline } from "../../kit/canvas.js";
import { alpha, colours } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { roofs } from "../../net/rooflines.js";
import { Picture } from "../../runs/picture.js";
import { names, racing } from "./model.js";
import { player } from "./player.js";

/** @import {Size} from "../../runs/picture.js" */
/** @import {Race} from "./figures.js" */

/** Exponents of the decades that are always shown. They suit the steps of a small model. */
const DECADES = { low: -1, high: 3 };
const RIGHT = 14; // px
const HEAD_HEIGHT = 16; // px for the names of both sides
const FOOT_HEIGHT = 14; // px for the labels of the scale

/** @param {{now: Race | null}} props */
export function Intensity({ now }) {
  const ridgePoint = typeof roofs.value === "object" ? ridge(roofs.value) : null;
  const values = now?.lanes.map((lane) => lane.intensity) ?? [];
  const parts = names().flatMap((name, i) =>
    values[i] ? [t("race.axis.lane", { name, value: intensityText(values[i]) })] : [],
  );
  const ridgeWord = ridgePoint ? t("race.axis.ridge", { ridge: intensityText(ridgePoint) }) : t("race.axis.unknown");
  return html`<section class="race-intensity">
    <h3 class="panel-title">
      ${t("race.axis")} <${Fidelity} kind="derived" formula=${t("race.formula.bytes")} />
    </h3>
    <${Picture}
      player=${player}
      name="race-axis"
      label=${[t("race.axis"), ...parts, ridgeWord].join(t("runs.comma"))}
      paint=${(/** @type {CanvasRenderingContext2D} */ c, /** @type {Size} */ size) =>
        paint(c, size, values, ridgePoint)}
    />
  </section>`;
}

/**
 * Paint a row per lane and the ridge.
 * @param {CanvasRenderingContext2D} c @param {Size} size
 * @param {(number | null)[]} values by lane
 * @param {number | null} ridgePoint operations per byte of the ridge, or null if the machine is not measured
 */
function paint(c, { width, height }, values, ridgePoint) {
  const palette = colours();
  const { low, high } = decades([...values, ridgePoint]);
  const left = Math.max(...names().map((name) => c.measureText(name).width)) + 10;
  const base = height - FOOT_HEIGHT;
  const scale = (width - left - RIGHT) / (high - low);
  const x = (/** @type {number} */ value) => left + (Math.log10(value) - low) * scale;
  c.fillStyle = palette["ink-3"];
  c.textAlign = "left";
  if (ridgePoint !== null) paintSides(c, { width, height: base }, left, x(ridgePoint), intensityText(ridgePoint));
  else c.fillText(t("race.axis.unknown"), left, HEAD_HEIGHT - 4);
  hairline(c, left, base, width - RIGHT, base, palette.line);
  c.fillStyle = palette["ink-3"];
  c.textBaseline = "alphabetic";
  c.textAlign = "center";
  for (let decade = low; decade <= high; decade++) {
    hairline(c, x(10 ** decade), base, x(10 ** decade), base + 3, palette.line);
    c.fillText(intensityText(10 ** decade), x(10 ** decade), height - 2);
  }
  const row = (base - HEAD_HEIGHT) / values.length;
  c.textBaseline = "middle";
  c.textAlign = "left";
  names().forEach((name, i) => {
    const y = HEAD_HEIGHT + row * (i + 0.5);
    c.fillStyle = palette["ink-2"];
    c.fillText(name, 0, y);
    const value = values[i];
    if (!value) return;
    c.fillStyle =
      i === 0 && racing.value !== "models" ? palette.q : i === values.length - 1 ? palette.k : palette["ink-3"];
    c.beginPath();
    c.arc(x(value), y, 4, 0, 2 * Math.PI);
    c.fill();
    paintValue(c, intensityText(value), x(value), y, width);
  });
}

/** Return the powers of ten that enclose all values. @param {(number | null)[]} values */
export function decades(values) {
  const exponents = values.filter((value) => value !== null && value > 0).map((value) => Math.log10(Number(value)));
  return {
    low: Math.min(DECADES.low, ...exponents.map(Math.floor)),
    high: Math.max(DECADES.high, ...exponents.map(Math.ceil)),
  };
}

/**
 * Paint a value at the right of its mark, or at the left if it does not fit.
 * @param {CanvasRenderingContext2D} c @param {string} text @param {number} x
 * @param {number} y @param {number} width
 */
function paintValue(c, text, x, y, width) {
  const wide = c.measureText(text).width + 7;
  const palette = colours();
  c.fillStyle = palette.ink;
  c.strokeStyle = palette.paper; // outline, so that the ridge does not cross the text
  c.lineWidth = 4;
  c.strokeText(text, x + wide < width ? x + 7 : x - wide, y);
  c.fillText(text, x + wide < width ? x + 7 : x - wide, y);
}

/**
 * Paint the sides of the ridge: at its left memory bounds a step, at its right arithmetic.
 * @param {CanvasRenderingContext2D} c @param {Size} size
 * @param {number} left px
 * @param {number} at px of the ridge
 * @param {string} value
 */
function paintSides(c, { width, height }, left, at, value) {
  const palette = colours();
  c.fillStyle = alpha(palette["line-2"], 0.6);
  c.fillRect(left, HEAD_HEIGHT, at - left, height - HEAD_HEIGHT);
  c.setLineDash([3, 3]);
  hairline(c, at, HEAD_HEIGHT, at, height, palette["ink-2"]);
  c.setLineDash([]);
  c.fillStyle = palette["ink-3"];
  c.textBaseline = "alphabetic";
  const sides = { memory: t("race.axis.memory"), ridge: value, arithmetic: t("race.axis.arithmetic") };
  const middle = c.measureText(sides.ridge).width / 2 + 6;
  const y = HEAD_HEIGHT - 4;
  c.textAlign = "center";
  c.fillText(sides.ridge, at, y);
  c.textAlign = "right";
  if (c.measureText(sides.memory).width < at - middle) c.fillText(sides.memory, at - middle, y);
  c.textAlign = "left";
  if (c.measureText(sides.arithmetic).width < width - at - middle) c.fillText(sides.arithmetic, at + middle, y);
}
