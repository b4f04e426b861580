// Fan of alternative next words, each a button at the end of its branch.

import { langOf, probabilityText, t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { useBox } from "../../kit/measure.js";
import { still } from "../../state/playhead.js";
import { fanOf, fontOf } from "./geometry.js";
import { eased } from "./time.js";

/** @import {Word} from "../../core/film.js" */
/** @import {Size} from "./geometry.js" */

const MAX_STEM = 26; // characters

/**
 * Paint the branches. The words are buttons placed by `fanOf`.
 * @param {CanvasRenderingContext2D} c @param {Size} size
 * @param {string} stem the preceding text
 * @param {Word[]} words @param {number | null} chosen @param {number} now
 */
function paintFan(c, size, stem, words, chosen, now) {
  const palette = colours();
  const fan = fanOf(size, words.length);
  const progress = eased(now, 0.2, 1.4);
  const line = stem.replaceAll("\n", " ");
  const text = line.length > MAX_STEM ? `…${line.slice(-MAX_STEM)}` : line;
  c.font = fontOf(100);
  const maxWidth = fan.narrow ? size.width - 32 : fan.stem.x - 40;
  c.font = fontOf(Math.min(fan.narrow ? 30 : 56, (100 * maxWidth) / c.measureText(text).width));
  c.textAlign = fan.narrow ? "center" : "right";
  c.textBaseline = "middle";
  c.fillStyle = palette.prompt;
  c.fillText(text, fan.stem.x - (fan.narrow ? 0 : 14), fan.narrow ? 28 : fan.stem.y);
  fan.words.forEach((box, i) => {
    const y = box.y + box.height / 2;
    const [from, to] = fan.narrow
      ? [
          { x: fan.stem.x, y: 52 },
          { x: fan.stem.x, y: box.y },
        ]
      : [fan.stem, { x: box.x - 4, y }];
    if (fan.narrow && i > 0) return;
    c.globalAlpha = (chosen === null || chosen === i ? 0.35 + 0.6 * Math.sqrt(words[i].p) : 0.1) * progress;
    c.strokeStyle = palette.generated;
    c.lineCap = "round";
    c.lineWidth = 1.5 + 12 * words[i].p;
    const middle = from.x + (to.x - from.x) * 0.5;
    c.beginPath();
    c.moveTo(from.x, from.y);
    if (fan.narrow) c.lineTo(to.x, from.y + (to.y - from.y) * progress);
    else
      c.bezierCurveTo(
        middle,
        from.y,
        middle,
        from.y + (to.y - from.y) * progress,
        to.x,
        from.y + (to.y - from.y) * progress,
      );
    c.stroke();
  });
  c.globalAlpha = 1;
}

const OPENING_MS = 1500;

/**
 * Fan with its buttons. `canChoose` returns whether a word can be chosen; `futures` has each word's known continuation.
 * @param {{
 *   stem: string, futures?: string[], words: Word[], choose: (k: number) => void,
 *   canChoose?: (k: number) => boolean,
 *   taken: import("../../../vendor/signals/signals.js").Signal<number | null>,
 * }} props
 */
export function Fan({ stem, words, futures = [], taken, choose, canChoose = () => true }) {
  const [box, size] = useBox();
  let start = 0;
  const ref = usePainter(
    () => [taken.value, themeVersion.value],
    function paint(element, canvasSize) {
      start ||= performance.now();
      const now = still.peek() ? OPENING_MS : performance.now() - start;
      const c = prepare(
        /** @type {HTMLCanvasElement} */ (element.firstElementChild),
        canvasSize.width,
        canvasSize.height,
      );
      paintFan(c, canvasSize, stem, words, taken.peek(), now / 1000);
      if (now < OPENING_MS) requestAnimationFrame(() => paint(element, canvasSize));
    },
  );
  const boxes = fanOf(size, words.length).words;
  return html`<div class="opening-picture" ref=${box}>
    <div class="opening-canvas" ref=${ref}><canvas aria-hidden="true"></canvas></div>
    <ol class="opening-fan">${boxes.map(({ x, y, width, height }, i) => {
      const word = words[i];
      const style = { left: `${x}px`, top: `${y}px`, maxWidth: `${width}px`, height: `${height}px` };
      const p = probabilityText(word.p);
      return html`<li style=${style} data-taken=${taken.value === null ? null : taken.value === i}>
        <button class="opening-word" lang=${langOf(word.text)} disabled=${!canChoose(i)}
          aria-disabled=${taken.value !== null}
          onClick=${() => choose(i)}><span class="opening-future"><b>${word.text}</b>${futures[i]}</span>
          <span class="visually-hidden">${t("intro.probability")}</span><span class="num">${p}</span></button>
      </li>`;
    })}</ol>
  </div>`;
}
