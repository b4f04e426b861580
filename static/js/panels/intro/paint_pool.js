// Picture of the pool: columns of K and V drop into the slots of blocks, then other requests share the blocks or wait.

import { t } from "../../i18n/words.js";
import { hairline, roundRect } from "../../kit/canvas.js";
import { colours } from "../../kit/colour.js";
import { fontOf, poolOf } from "./geometry.js";
import { lanesAt } from "./paint_race.js";
import { paintStripes } from "./stripes.js";
import { between, eased, linear } from "./time.js";

/** @import {Box, Size} from "./geometry.js" */
/** @import {Scene} from "./paint_race.js" */

/** @typedef {ReturnType<typeof poolOf>} Pool */

const FALL_SECONDS = [0.8, 5.4]; // first and last second of the fall of all columns
const FLIGHT_SECONDS = 0.5; // duration of the fall of a column
const QUERY_SECONDS = [5.2, 7]; // first and last second of the query's fading

/** Number of positions whose K and V are cached. @param {Scene} scene */
const numCached = ({ film }) => film.numPrompt + film.steps.length - 1;

/**
 * @param {CanvasRenderingContext2D} c @param {Size} size @param {Scene} scene
 * @param {Float32Array | null} q query of the last word
 * @param {number} now
 */
export function paintPool(c, size, scene, q, now) {
  const { film } = scene;
  const pool = poolOf(size, film.numBlocks, film.blockSize, 0);
  const lane = lanesAt(size, film);
  const progress = eased(now, 0, 0.8);
  const count = numCached(scene);
  const top = pool.top * 0.3;
  c.globalAlpha = progress;
  for (let id = 0; id < film.numBlocks; id++) paintBlock(c, pool, id, tableLabel(film, id, now, count));
  c.globalAlpha = 1;
  for (let p = 0; p < count; p++) {
    const begin = FALL_SECONDS[0] + (p / count) * (FALL_SECONDS[1] - FALL_SECONDS[0] - FLIGHT_SECONDS);
    const flight = eased(now, begin, begin + FLIGHT_SECONDS);
    const slot = pool.slotBox(film.table[Math.floor(p / film.blockSize)], p % film.blockSize);
    const start = {
      x: lane.x(p),
      y: between(lane.low, top, progress),
      width: Math.max(1.5, lane.cell - 1),
      height: lane.kv,
    };
    paintPair(c, scene, p, interpolated(start, slot, flight));
  }
  paintQuery(c, pool, q, now);
}

/** @type {(a: Box, b: Box, t: number) => Box} */
const interpolated = (a, b, share) => ({
  x: between(a.x, b.x, share),
  y: between(a.y, b.y, share),
  width: between(a.width, b.width, share),
  height: between(a.height, b.height, share),
});

/** @param {CanvasRenderingContext2D} c @param {Scene} scene @param {number} p @param {Box} box */
function paintPair(c, { k, v }, p, box) {
  const half = (box.height - 1) / 2;
  paintStripes(c, k(p), "k", { ...box, height: half });
  paintStripes(c, v(p), "v", { ...box, y: box.y + half + 1, height: half });
}

/**
 * Label of a block of the table once the first key is in it; "" before that, and for other blocks.
 * @param {Scene["film"]} film @param {number} id @param {number} now
 * @param {number} count
 */
function tableLabel(film, id, now, count) {
  const logical = film.table.indexOf(id);
  if (logical < 0 || logical * film.blockSize >= count) return "";
  const lands =
    FALL_SECONDS[0] +
    ((logical * film.blockSize) / count) * (FALL_SECONDS[1] - FALL_SECONDS[0] - FLIGHT_SECONDS) +
    FLIGHT_SECONDS;
  return now >= lands ? `${logical} → ${id}` : "";
}

/** @param {CanvasRenderingContext2D} c @param {Pool} pool @param {number} id @param {string} label */
function paintBlock(c, pool, id, label) {
  const { x, y, width, height } = pool.box(id);
  c.strokeStyle = colours().line;
  c.lineWidth = 1;
  roundRect(c, x - 3, y - 1, width + 4, height + 2, 5);
  c.stroke();
  c.font = fontOf(13);
  c.textBaseline = "alphabetic";
  c.textAlign = "left";
  c.fillStyle = colours()["ink-3"];
  c.fillText(String(id), x - 2, y - 6);
  if (!label) return;
  c.font = fontOf(13, "600");
  c.textAlign = "right";
  c.fillStyle = colours().prompt;
  c.fillText(label, x + width, y - 6);
}

/**
 * Paint the query of the last word, which is not cached.
 * @param {CanvasRenderingContext2D} c @param {Pool} pool @param {Float32Array | null} q
 * @param {number} now
 */
function paintQuery(c, pool, q, now) {
  const faded = linear(now, QUERY_SECONDS[0], QUERY_SECONDS[1]);
  if (faded >= 1) return;
  const box = { x: pool.margin, y: pool.top * 0.3 + 48 - 20 * faded, width: 26, height: 26 };
  c.globalAlpha = eased(now, 0.2, 0.8) * (1 - faded);
  paintStripes(c, q, "q", box);
  c.font = fontOf(16, "600");
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillStyle = colours().q;
  c.fillText("Q", box.x + 34, box.y + 13);
  c.globalAlpha = 1;
}

// ── Serving other requests ───────────────────────────────────────────────────────────────────────────────────────────

/** @param {CanvasRenderingContext2D} c @param {Size} size @param {Scene} scene @param {number} now */
export function paintServing(c, size, scene, now) {
  const { film } = scene;
  const { serving } = film;
  const pool = poolOf(size, film.numBlocks, film.blockSize, eased(now, 0, 0.9));
  for (let id = 0; id < film.numBlocks; id++) paintBlock(c, pool, id, "");
  for (let p = 0; p < numCached(scene); p++)
    paintPair(c, scene, p, pool.slotBox(film.table[Math.floor(p / film.blockSize)], p % film.blockSize));
  if (!serving) return;
  const [rowA, rowB, rowC] = [0.06, 0.19, 0.31].map((share) => Math.round(size.height * share) + 10);
  const { a, b } = serving;
  const hue = (/** @type {number} */ id) => colours().sequences[id % colours().sequences.length];
  const faint = 1 - 0.75 * eased(now, 1.6, 2.4); // A's own blocks fade when B arrives
  const opacityA = (/** @type {number} */ id) => (serving.shared.includes(id) ? 1 : faint);
  paintTable(c, pool, "A", a.table, rowA, hue(a.id), eased(now, 0.6, 1.5), opacityA);
  paintTable(c, pool, "B", b.table, rowB, hue(b.id), eased(now, 1.7, 3), () => 1);
  for (const id of b.table)
    if (!serving.shared.includes(id)) paintAllocated(c, pool, id, hue(b.id), eased(now, 2.6, 3.2));
  for (const id of serving.shared) paintShared(c, pool, id, eased(now, 2.6, 3.2));
  const text = t("intro.waits", { needed: serving.needed, available: serving.available });
  c.globalAlpha = eased(now, 4, 4.8);
  c.font = fontOf(pool.narrow ? 15 : 17);
  c.fillStyle = colours().paper; // hide the lines behind the text
  c.fillRect(pool.margin - 4, rowC - 14, c.measureText(text).width + 44, 28);
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillStyle = colours().ink;
  c.font = fontOf(20, "700");
  c.fillText("C", pool.margin, rowC);
  c.font = fontOf(pool.narrow ? 15 : 17);
  c.fillStyle = colours().ink;
  c.fillText(text, pool.margin + 34, rowC);
  c.globalAlpha = 1;
}

/**
 * Paint a block table: a chip for each block, with a line to the block in the pool.
 * @param {CanvasRenderingContext2D} c @param {Pool} pool @param {string} name
 * @param {number[]} table @param {number} y @param {string} colour
 * @param {number} share progress, 0 to 1
 * @param {(id: number) => number} strength opacity of the line to a block
 */
function paintTable(c, pool, name, table, y, colour, share, strength) {
  if (share <= 0) return;
  const chip = pool.narrow ? 28 : 40;
  c.globalAlpha = share;
  c.font = fontOf(20, "700");
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillStyle = colours().ink;
  c.fillText(name, pool.margin, y);
  table.forEach((id, i) => {
    const x = pool.margin + 34 + i * (chip + 5);
    c.globalAlpha = eased(share, (i / table.length) * 0.6, (i / table.length) * 0.6 + 0.4);
    c.strokeStyle = colour;
    c.lineWidth = 2;
    roundRect(c, x, y - 13, chip, 26, 5);
    c.stroke();
    c.font = fontOf(14, "600");
    c.textAlign = "center";
    c.fillText(String(id), x + chip / 2, y);
    const box = pool.box(id);
    const [from, to] = [
      { x: x + chip / 2, y: y + 13 },
      { x: box.x + box.width * (name === "A" ? 0.42 : 0.58), y: box.y - 2 },
    ];
    c.globalAlpha *= 0.8 * strength(id);
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(from.x, from.y);
    c.bezierCurveTo(from.x, from.y + 50, to.x, to.y - 60, to.x, to.y);
    c.stroke();
  });
  c.globalAlpha = 1;
}

/**
 * Paint a newly allocated block: outlined in its holder's colour, without contents.
 * @param {CanvasRenderingContext2D} c @param {Pool} pool @param {number} id
 * @param {string} colour @param {number} share
 */
function paintAllocated(c, pool, id, colour, share) {
  const { x, y, width, height } = pool.box(id);
  c.globalAlpha = share;
  c.strokeStyle = colour;
  c.lineWidth = 2;
  roundRect(c, x - 3, y - 1, width + 4, height + 2, 5);
  c.stroke();
  c.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} c @param {Pool} pool @param {number} id @param {number} share */
function paintShared(c, pool, id, share) {
  const { x, y, width, height } = pool.box(id);
  c.globalAlpha = share;
  c.font = fontOf(15, "700");
  c.textAlign = "right";
  c.textBaseline = "alphabetic";
  c.fillStyle = colours().ink;
  c.fillText("×2", x + width, y - 5);
  hairline(c, x, y + height + 4, x + width, y + height + 4, colours().ink);
  c.globalAlpha = 1;
}
