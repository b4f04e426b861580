// The words that might have come, each a button at the end of its branch.

import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { useBox } from "../../kit/measure.js";
import { still } from "../../state/moment.js";
import { langOf, probabilityText, t } from "../../tell/words.js";
import { fanOf } from "./geometry.js";
import { paintFan } from "./paint_fan.js";

const OPENING_MS = 1500;

/**
 * `can`: whether a word can be taken. `futures`: how the text goes on after each, where it is known.
 *
 * @param {{
 *   stem: string, futures?: string[], words: import("../../core/film.js").Word[], choose: (k: number) => void,
 *   can?: (k: number) => boolean,
 *   taken: import("../../../vendor/signals/signals.js").Signal<number | null>,
 * }} props
 */
export function Fan({ stem, words, futures = [], taken, choose, can = () => true }) {
  const [box, size] = useBox();
  let began = 0;
  const ref = usePainter(
    () => [taken.value, themeVersion.value],
    function paint(element, room) {
      began ||= performance.now();
      const now = still.peek() ? OPENING_MS : performance.now() - began;
      const c = prepare(/** @type {HTMLCanvasElement} */ (element.firstElementChild), room.width, room.height);
      paintFan(c, room, stem, words, taken.peek(), now / 1000);
      if (now < OPENING_MS) requestAnimationFrame(() => paint(element, room));
    },
  );
  const places = fanOf(size, words.length).words;
  return html`<div class="opening-picture" ref=${box}>
    <div class="opening-canvas" ref=${ref}><canvas aria-hidden="true"></canvas></div>
    <ol class="opening-fan">${places.map(({ x, y, width, height }, i) => {
      const word = words[i];
      const place = { left: `${x}px`, top: `${y}px`, maxWidth: `${width}px`, height: `${height}px` };
      const p = probabilityText(word.p);
      return html`<li style=${place} data-taken=${taken.value === null ? null : taken.value === i}>
        <button class="opening-word" lang=${langOf(word.text)} disabled=${!can(i)}
          aria-disabled=${taken.value !== null}
          onClick=${() => choose(i)}><span class="opening-future"><b>${word.text}</b>${futures[i]}</span>
          <span class="visually-hidden">${t("look.probability")}</span><span class="num">${p}</span></button>
      </li>`;
    })}</ol>
  </div>`;
}
