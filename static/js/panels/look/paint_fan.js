// The words that might have come, as branches of what was said.

import { colours } from "../../kit/colour.js";
import { fanOf, fontOf } from "./geometry.js";
import { eased } from "./time.js";

/**
 * @typedef {import("./geometry.js").Size} Size
 * @typedef {import("../../core/film.js").Word} Word
 */

const LONGEST = 26; // letters of the stem that are shown

/**
 * The branches; the words themselves are buttons, which lie where geometry's `fanOf` says.
 *
 * @param {CanvasRenderingContext2D} c
 * @param {Size} size
 * @param {string} stem what was said before
 * @param {Word[]} words
 * @param {number | null} chosen
 * @param {number} now
 */
export function paintFan(c, size, stem, words, chosen, now) {
  const palette = colours();
  const fan = fanOf(size, words.length);
  const open = eased(now, 0.2, 1.4);
  const line = stem.replaceAll("\n", " ");
  const said = line.length > LONGEST ? `…${line.slice(-LONGEST)}` : line;
  c.font = fontOf(100);
  const room = fan.narrow ? size.width - 32 : fan.stem.x - 40;
  c.font = fontOf(Math.min(fan.narrow ? 30 : 56, (100 * room) / c.measureText(said).width));
  c.textAlign = fan.narrow ? "center" : "right";
  c.textBaseline = "middle";
  c.fillStyle = palette.prompt;
  c.fillText(said, fan.stem.x - (fan.narrow ? 0 : 14), fan.narrow ? 28 : fan.stem.y);
  fan.words.forEach((box, i) => {
    const y = box.y + box.height / 2;
    const [from, to] = fan.narrow
      ? [
          { x: fan.stem.x, y: 52 },
          { x: fan.stem.x, y: box.y },
        ]
      : [fan.stem, { x: box.x - 4, y }];
    if (fan.narrow && i > 0) return;
    c.globalAlpha = (chosen === null || chosen === i ? 0.35 + 0.6 * Math.sqrt(words[i].p) : 0.1) * open;
    c.strokeStyle = palette.generated;
    c.lineCap = "round";
    c.lineWidth = 1.5 + 12 * words[i].p;
    const middle = from.x + (to.x - from.x) * 0.5;
    c.beginPath();
    c.moveTo(from.x, from.y);
    if (fan.narrow) c.lineTo(to.x, from.y + (to.y - from.y) * open);
    else
      c.bezierCurveTo(middle, from.y, middle, from.y + (to.y - from.y) * open, to.x, from.y + (to.y - from.y) * open);
    c.stroke();
  });
  c.globalAlpha = 1;
}
