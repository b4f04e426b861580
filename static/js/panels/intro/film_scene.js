// The film on a canvas: selects and paints the picture for a point in time. A pure function of recording, size and
// time.

import { attentionOf, vectorIn } from "../../core/film.js";
import { joinText } from "../../core/labels.js";
import { colours } from "../../kit/colour.js";
import { columnsOf, countFitting, lineWidth } from "./geometry.js";
import { attentionAt, paintAttention, paintWord, rowsOf } from "./paint_attention.js";
import { paintPool, paintServing } from "./paint_pool.js";
import { paintRace } from "./paint_race.js";
import { beatAt, linear } from "./time.js";

/** @import {Film} from "../../core/film.js" */
/** @import {Size} from "./geometry.js" */

/** @typedef {ReturnType<typeof sceneOf>} Scene */

const MAX_VISIBLE = 14; // maximum number of words that the query attends to
const MIN_VISIBLE = 8;
const PROMPT_SECONDS = 1.7; // during which only the prompt is shown

/**
 * Return the inputs of a film's pictures at a screen width: the query with its attention, and cached vectors.
 * @param {CanvasRenderingContext2D} c @param {Film} film @param {number} width
 */
export function sceneOf(c, film, width) {
  const fits = countFitting(c, film.words.slice(0, MAX_VISIBLE + 1), lineWidth(width)) - 1;
  const attention = attentionOf(film, Math.max(MIN_VISIBLE, Math.min(MAX_VISIBLE, fits))) ?? {
    index: film.steps[0],
    head: 0,
    query: film.numPrompt - 1,
    weights: new Float32Array(film.numPrompt),
  };
  /** @type {Map<string, Float32Array | null>} */
  const vectors = new Map();
  const vector = (/** @type {"q" | "k" | "v"} */ kind, /** @type {number} */ position) => {
    const key = `${kind}${position}`;
    const found = vectors.get(key) ?? vectorIn(film, kind, position, attention.head);
    vectors.set(key, found);
    return found;
  };
  return {
    film,
    attention,
    numVisible: attention.query + 1,
    head: attention.head,
    k: (/** @type {number} */ position) => vector("k", position),
    v: (/** @type {number} */ position) => vector("v", position),
    q: (/** @type {number} */ position) => vector("q", position),
  };
}

/**
 * @param {CanvasRenderingContext2D} c @param {Size} size @param {Scene} scene
 * @param {number} time seconds, before the fan begins
 */
export function paintFilm(c, size, scene, time) {
  const { id, local } = beatAt(time);
  const { film } = scene;
  if (id === "next") paintBeginning(c, size, scene, local);
  else if (id === "ask") paintAttentionBeat(c, size, scene, local);
  else if (id === "again" || id === "race") paintRace(c, size, scene, id, local);
  else if (id === "kept") paintPool(c, size, scene, scene.q(film.numPrompt + film.steps.length - 2), local);
  else paintServing(c, size, scene, local);
}

/** Text before the word for which the fan offers alternatives. @param {Film} film */
export function stemOf(film) {
  const bytes = film.log.tail.sequences.get(film.seq)?.token_bytes ?? [];
  return joinText(bytes.slice(0, film.numPrompt + film.steps.indexOf(film.fanAt)));
}

/**
 * Paint the prompt with a cursor, then its next words one by one.
 * @param {CanvasRenderingContext2D} c @param {Size} size @param {Scene} scene
 * @param {number} now
 */
function paintBeginning(c, size, { film, numVisible }, now) {
  const columns = columnsOf(c, film.words.slice(0, numVisible + 1), size.width);
  const { text } = rowsOf(size, columns);
  const numGenerated = numVisible - film.numPrompt;
  const count = film.numPrompt + Math.floor(numGenerated * linear(now, PROMPT_SECONDS, 3.7));
  for (let p = columns.first; p < Math.min(count, numVisible); p++) {
    const colour = p < film.numPrompt ? colours().prompt : colours().generated;
    paintWord(c, columns, p, film.words[p], text, { colour });
  }
  const last = count - columns.first;
  const x = (columns.x[last] ?? size.width) - (columns.widths[last] ?? 0) / 2 + 6;
  c.fillStyle = colours().generated;
  c.fillRect(x, text - columns.size * 0.6, 3, columns.size * 1.2);
}

/** @param {CanvasRenderingContext2D} c @param {Size} size @param {Scene} scene @param {number} now */
function paintAttentionBeat(c, size, { film, attention, numVisible, k, v, q }, now) {
  const words = film.words.slice(0, numVisible + 1);
  const columns = columnsOf(c, words, size.width);
  const { weights, query } = attention;
  const inputs = {
    ...{ words: words.slice(0, numVisible), numPrompt: film.numPrompt, weights, query, k, v, q: q(query) },
    next: words[numVisible] ?? null,
  };
  paintAttention(c, columns, rowsOf(size, columns), inputs, attentionAt(now));
}
