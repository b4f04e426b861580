// The same tokens without and with a cache: the upper lane computes all tokens at every step, the lower lane one.

import { grouped, t } from "../../i18n/words.js";
import { roundRect } from "../../kit/canvas.js";
import { colours } from "../../kit/colour.js";
import { columnsOf, fontOf, lanesOf } from "./geometry.js";
import { rowsOf } from "./paint_attention.js";
import { paintStripes } from "./stripes.js";
import { between, eased, linear } from "./time.js";

/** @import {Film} from "../../core/film.js" */
/** @import {Size} from "./geometry.js" */

/**
 * @typedef {ReturnType<typeof lanesOf>} RaceLayout
 * @typedef {{film: Film, numVisible: number, head: number, k: Vectors, v: Vectors}} Scene `numVisible`: number of words
 *   before the query
 * @typedef {(position: number) => Float32Array | null} Vectors
 */

const GATHER_SECONDS = 0.9; // duration of the cells' move from the previous picture
const STEP_SECONDS = 2.3; // per step during the beat `again`

const MIN_STEPS = 16; // minimum number of steps for which the lanes have space
const ZOOM_MARGIN = 1.12; // space for steps, relative to the computed steps

/**
 * Return the lanes after `done` steps; the picture zooms out as they grow.
 * @param {Size} size @param {Film} film
 * @param {number} [done]
 */
export function lanesAt(size, film, done = film.steps.length) {
  const steps = Math.min(film.steps.length, Math.max(MIN_STEPS, ZOOM_MARGIN * done));
  return lanesOf(size, film.numPrompt + steps, steps);
}

/**
 * Return the number of steps done at second `now` of a beat, including the fraction of the current step.
 * @param {Scene} scene @param {"again" | "race"} beat @param {number} now
 */
export function stepsAt({ film, numVisible }, beat, now) {
  const first = numVisible - film.numPrompt;
  if (beat === "again")
    return (
      first +
      linear(now, GATHER_SECONDS, GATHER_SECONDS + STEP_SECONDS) +
      linear(now, GATHER_SECONDS + STEP_SECONDS, GATHER_SECONDS + 2 * STEP_SECONDS)
    );
  const left = film.steps.length - first - 2;
  return first + 2 + left * linear(now, 0, 5) ** 1.6;
}

/**
 * @param {CanvasRenderingContext2D} c @param {Size} size @param {Scene} scene
 * @param {"again" | "race"} beat @param {number} now
 */
export function paintRace(c, size, scene, beat, now) {
  const done = stepsAt(scene, beat, now);
  const geometry = lanesAt(size, scene.film, done);
  const gathered = beat === "again" ? eased(now, 0, GATHER_SECONDS) : 1;
  c.globalAlpha = gathered;
  paintTitles(c, geometry);
  paintUpper(c, geometry, scene.film, done);
  paintCounters(c, size, geometry, scene.film, done);
  c.globalAlpha = 1;
  paintLower(c, size, geometry, scene, done, gathered);
}

/** @param {CanvasRenderingContext2D} c @param {RaceLayout} g */
function paintTitles(c, g) {
  c.font = fontOf(g.narrow ? 15 : 17, "600");
  c.textAlign = "left";
  c.textBaseline = "alphabetic";
  c.fillStyle = colours().ink;
  c.fillText(t("intro.without"), g.margin, g.top - 12, g.narrow ? g.right - g.margin : undefined);
  c.fillText(t("intro.with"), g.margin, g.low - 12, g.narrow ? g.right - g.margin : undefined);
}

/**
 * Paint one row per step, with as many cells as tokens were computed.
 * @param {CanvasRenderingContext2D} c @param {RaceLayout} g @param {Film} film
 * @param {number} done
 */
function paintUpper(c, g, film, done) {
  const gap = Math.min(3, g.cell * 0.12);
  const tall = Math.max(1, g.row - Math.min(3, g.row * 0.16));
  c.fillStyle = colours().q;
  for (let i = 0; i < Math.min(film.steps.length, Math.ceil(done)); i++) {
    const part = Math.min(1, done - i);
    const cells = computedIn(film.withoutCache, i);
    const count = i + 2 >= done && part < 1 ? Math.floor(cells * part) : cells;
    const y = g.top + i * g.row;
    if (g.cell < 4) c.fillRect(g.x(0), y, count * g.cell, tall);
    else for (let k = 0; k < count; k++) c.fillRect(g.x(k), y, g.cell - gap, tall);
  }
}

/** Tokens computed in step `i`, from cumulative sums. @param {number[]} sums @param {number} i */
const computedIn = (sums, i) => (sums[i] ?? 0) - (sums[i - 1] ?? 0);

/**
 * Return the tokens computed after `done` steps, including the fraction of the current one.
 * @param {number[]} sums @param {number} done
 */
function cumulativeAt(sums, done) {
  const numSteps = Math.min(sums.length, Math.floor(done));
  return (
    (sums[numSteps - 1] ?? 0) +
    Math.floor((done - numSteps) * (numSteps < sums.length ? computedIn(sums, numSteps) : 0))
  );
}

/** Return the tokens computed without and with a cache after `done` steps. @param {Film} film @param {number} done */
export const computedTokens = (film, done) => [
  cumulativeAt(film.withoutCache, done),
  cumulativeAt(film.withCache, done),
];

/**
 * @param {CanvasRenderingContext2D} c @param {Size} size @param {RaceLayout} g
 * @param {Film} film @param {number} done
 */
function paintCounters(c, size, g, film, done) {
  const palette = colours();
  const rows = film.steps.length * g.row;
  const [upper, lower] = computedTokens(film, done).map(grouped);
  c.textBaseline = "alphabetic";
  if (g.narrow) {
    c.textAlign = "right";
    paintNumber(c, upper, size.width - g.margin, g.top - 34, 26, palette.q);
    paintNumber(c, lower, size.width - g.margin, g.low - 34, 26, palette.k);
    return;
  }
  c.textAlign = "center";
  const x = size.width - g.margin - 80;
  paintNumber(c, upper, x, g.top + Math.min(rows / 2, 150), 44, palette.q, t("intro.computed"));
  paintNumber(c, lower, x, g.low + g.kv / 2 + 8, 44, palette.k, t("intro.computed"));
}

/**
 * @param {CanvasRenderingContext2D} c @param {string} text @param {number} x
 * @param {number} y @param {number} size @param {string} colour
 * @param {string} [unit]
 */
function paintNumber(c, text, x, y, size, colour, unit = "") {
  c.font = fontOf(size, "700");
  c.fillStyle = colour;
  c.fillText(text, x, y);
  if (!unit) return;
  c.font = fontOf(14);
  c.fillStyle = colours()["ink-2"];
  c.fillText(unit, x, y + 22);
}

/**
 * Paint the cache: K and V of every token so far, a frame around the token being computed, and the words if they fit.
 * @param {CanvasRenderingContext2D} c @param {Size} size @param {RaceLayout} g
 * @param {Scene} scene @param {number} done @param {number} gathered
 */
function paintLower(c, size, g, scene, done, gathered) {
  const { film, numVisible, k, v } = scene;
  const columns = columnsOf(c, film.words.slice(0, numVisible + 1), size.width);
  const previousRows = rowsOf(size, columns);
  const count = Math.min(film.words.length, film.numPrompt + Math.ceil(done) - 1);
  const half = g.kv / 2 - 1;
  for (let p = 0; p < count; p++) {
    const isComputing = p === count - 1 && done % 1 > 0;
    const from = columns.x[p - columns.first];
    const start = p < numVisible && from !== undefined ? 1 - gathered : 0;
    const width = Math.max(1.5, g.cell - Math.min(4, g.cell * 0.16));
    const box = {
      x: between(g.x(p), (from ?? 0) - 22, start),
      y: between(g.low, previousRows.k, start),
      width: between(width, 44, start),
      height: between(half, previousRows.cell, start),
    };
    c.globalAlpha = isComputing ? Math.min(1, (done % 1) * 2) : 1;
    paintStripes(c, k(p), "k", box);
    paintStripes(c, v(p), "v", { ...box, y: box.y + box.height + 2 });
    if (isComputing) paintComputing(c, g, p, g.kv);
  }
  c.globalAlpha = gathered;
  paintWords(c, g, film, count);
  c.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} c @param {RaceLayout} g @param {number} p @param {number} height */
function paintComputing(c, g, p, height) {
  c.strokeStyle = colours().q;
  c.lineWidth = 2;
  roundRect(c, g.x(p) - 1.5, g.low - 1.5, g.cell, height + 3, 3);
  c.stroke();
}

/**
 * Paint the words under their cells, or none if not all fit.
 * @param {CanvasRenderingContext2D} c @param {RaceLayout} g @param {Film} film
 * @param {number} count
 */
function paintWords(c, g, film, count) {
  c.font = fontOf(Math.max(14, Math.min(22, g.cell * 0.7)));
  if (g.cell < 13 || film.words.some((word) => c.measureText(word).width > g.cell)) return;
  c.textAlign = "center";
  c.textBaseline = "top";
  for (let p = 0; p <= count && p < film.words.length; p++) {
    c.fillStyle = p < film.numPrompt ? colours().prompt : colours().generated;
    c.fillText(film.words[p], g.x(p) + g.cell / 2 - 1, g.foot);
  }
}
