// The opening film: a picture and a sentence for each of seven parts, which play automatically and can be navigated.

import { useEffect, useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { effect, signal } from "../../../vendor/signals/signals.js";
import { chooseWord, chosenWord, endOpening, failed, film, futures, playing, time } from "../../control/opening.js";
import { kvTerms } from "../../core/metrics.js";
import { bytesText, t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { loadingSentence } from "../../kit/model_loading.js";
import { LanguageSwitch } from "../../kit/preferences.js";
import { attends, presents } from "../../state/classroom.js";
import { still } from "../../state/playhead.js";
import { settings } from "../../state/settings.js";
import { connection } from "../../state/store.js";
import { Fan } from "./fan.js";
import { paintFilm, sceneOf, stemOf } from "./film_scene.js";
import { OwnPrompt } from "./next_steps.js";
import { computedTokens, stepsAt } from "./paint_race.js";
import { ATTENTION_BEAT, BEATS, beatAt, END, endOf } from "./time.js";

/** @import {Film} from "../../core/film.js" */

export function Panel() {
  const { id, index } = beatAt(time.value);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(followClock, []);
  useEffect(followPresenter, []);
  useLayoutEffect(() => {
    box.current?.focus({ preventScroll: true });
    document.addEventListener("keydown", onKey, true);
    return () => document.removeEventListener("keydown", onKey, true);
  }, []);
  const now = film.value && time.value <= canPlayTo(film.value) ? film.value : null;
  const text = chosenWord.value === null ? sentenceOf(now) : t("intro.taken");
  return html`<main class="opening" id="opening" ref=${box} tabindex="-1" aria-label=${t("intro.title")} data-beat=${id}
    data-ready=${Boolean(now)}>
    <div class="opening-head">
      <span class="wordmark"><span class="wordmark-kv"><i>K</i><i>V</i></span> Theater</span>
      <span class="opening-source"><i aria-hidden="true">●</i> ${t("intro.source")}</span>
      <span class="opening-tools"><${LanguageSwitch} />${
        attends.value
          ? null
          : html`<button class="quiet" id="opening-skip"
        onClick=${endOpening}>${t(time.value < END ? "intro.skip" : "intro.go_on")}</button>`
      }</span>
    </div>
    ${now ? html`<${Picture} now=${now} fan=${id === "fan"} />` : html`<div class="opening-picture"></div>`}
    <p class="opening-sentence" id="opening-sentence" aria-live=${id === "race" && playing.value ? "off" : "polite"}>${
      failed.value ? t("intro.missing") : now ? text : t("intro.loading")
    }</p>
    ${id === "fan" ? html`<${OwnPrompt} />` : null}
    ${attends.value ? null : html`<${Controls} text=${text} index=${index} />`}
    <${Model} />
  </main>`;
}

/** @param {{text: string, index: number}} props */
const Controls = ({ text, index }) => html`<div class="opening-controls">
      <button class="tool" id="opening-play" aria-label=${t(playing.value ? "intro.pause" : "intro.play")}
        onClick=${toggle}><${Icon} name=${playing.value ? "pause" : "play"} /></button>
      <input class="opening-time" id="opening-time" type="range" min="0" max=${END} step="0.05" value=${time.value}
        aria-label=${t("intro.title")} aria-valuetext=${t("intro.beat", { i: index + 1, n: BEATS.length, text })}
        data-arrows onInput=${scrub} />
      <span class="opening-marks" aria-hidden="true">${BEATS.map(
        ({ from }, i) => html`<i style=${{ left: `${(100 * from) / END}%` }} data-done=${i <= index}></i>`,
      )}</span>
    </div>`;

/** Loading status of the model, which computes the continuation of a chosen word. */
function Model() {
  const text = loadingSentence() || (connection.value === "live" ? t("intro.model.live") : "");
  return html`<p class="opening-model" id="opening-model" role="status">${text}</p>`;
}

/** Sentence about the picture, with the current counters during the race. @param {Film | null} now */
function sentenceOf(now) {
  const { id, local } = beatAt(time.value);
  if (!now) return t(`intro.${id}`);
  if (id === "fan" && attends.value) return t("intro.fan.led");
  if (id !== "race") return t(`intro.${id}`, { each: bytesText(kvTerms(now.log.header).bytes_per_token) });
  const done = scene.value?.found.film === now ? stepsAt(scene.value.found, id, local) : now.steps.length;
  const [without, withCache] = computedTokens(now, done);
  return t("intro.race", { times: Number((without / withCache).toPrecision(3)) });
}

/**
 * Scene of the film at the current screen width.
 * @type {import("../../../vendor/signals/signals.js").Signal<
 *   {width: number, found: import("./film_scene.js").Scene} | null
 * >}
 */
export const scene = signal(null);

/** @param {{now: Film, fan: boolean}} props */
function Picture({ now, fan }) {
  if (fan)
    return html`<${Fan} stem=${stemOf(now)} words=${now.fan} futures=${futures.value} taken=${chosenWord}
      choose=${attends.value ? () => {} : chooseWord} />`;
  return html`<${FilmPicture} now=${now} />`;
}

/** @param {{now: Film}} props */
function FilmPicture({ now }) {
  const ref = usePainter(
    () => [time.value, themeVersion.value],
    (element, size) => {
      const c = prepare(/** @type {HTMLCanvasElement} */ (element.firstElementChild), size.width, size.height);
      if (!size.width) return;
      let current = scene.peek();
      if (current?.width !== size.width || current.found.film !== now)
        scene.value = current = { width: size.width, found: sceneOf(c, now, size.width) };
      paintFilm(c, size, current.found, time.peek());
    },
  );
  return html`<div class="opening-picture"><div class="opening-canvas" ref=${ref}><canvas
    aria-hidden="true"></canvas></div></div>`;
}

/** Time up to which the film is loaded. @param {Film} now */
const canPlayTo = (now) => (now.isWhole ? END : endOf(ATTENTION_BEAT));

// ── Time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Advance the time while playing. With reduced motion, each part is shown complete. */
function followClock() {
  let frame = 0;
  let previous = 0;
  /** @param {number} now */
  const tick = (now) => {
    // limit the step after a hidden page or a slow frame
    const passed = previous ? Math.min(0.1, (now - previous) / 1000) : 0;
    const limit = film.peek() ? Math.min(canPlayTo(/** @type {Film} */ (film.peek())), timeLimit()) : 0;
    if (time.peek() < limit) time.value = Math.min(limit, time.peek() + passed);
    previous = now;
    if (time.peek() >= END) playing.value = false;
    else frame = requestAnimationFrame(tick);
  };
  return effect(() => {
    cancelAnimationFrame(frame);
    previous = 0;
    if (!film.value) return;
    if (still.value) {
      playing.value = false;
      time.value = endOf(beatAt(time.peek()).index);
    } else if (playing.value) frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  });
}

/** Time limit of a follower: the end of the part that the presenter shows. */
const timeLimit = () => (attends.peek() ? endOf(settings.film.peek() ?? 0) : END);

/** Publish the shown part as a presenter; follow it as a participant. */
function followPresenter() {
  const stops = [
    effect(() => {
      if (presents.value) settings.film.value = beatAt(time.value).index;
    }),
    effect(() => {
      const part = settings.film.value;
      if (!attends.value || part === null || !BEATS[part] || beatAt(time.peek()).index === part) return;
      time.value = still.value ? endOf(part) : BEATS[part].from;
      playing.value = true;
    }),
  ];
  return () => {
    for (const stop of stops) stop();
    if (presents.peek()) settings.film.value = null;
  };
}

function toggle() {
  if (!playing.peek() && time.peek() >= END) time.value = 0;
  if (still.peek()) return moveBy(1);
  playing.value = !playing.peek();
}

/** @param {Event & {currentTarget: HTMLInputElement}} event */
function scrub(event) {
  playing.value = false;
  const to = event.currentTarget.valueAsNumber;
  time.value = still.peek() ? endOf(beatAt(to).index) : to;
}

/** Move to the next or previous part. @param {number} direction 1 or -1 */
function moveBy(direction) {
  const to = Math.max(0, Math.min(BEATS.length - 1, beatAt(time.peek()).index + direction));
  time.value = still.peek() ? endOf(to) : BEATS[to].from;
}

/** Whether a key belongs to the text field or to controls outside the opening. @param {EventTarget | null} target */
const isOutside = (target) =>
  target instanceof Element &&
  target !== document.body &&
  (!target.closest("#opening") || target.matches("#own-words"));

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (attends.peek() || event.ctrlKey || event.metaKey || event.altKey || isOutside(event.target)) return;
  /** @type {Record<string, () => void>} */
  const keys = {
    ...{
      ArrowRight: () => moveBy(1),
      PageDown: () => moveBy(1),
      ArrowLeft: () => moveBy(-1),
      PageUp: () => moveBy(-1),
    },
    ...{ Escape: endOpening, " ": toggle },
  };
  const action = keys[event.key];
  const onButton = event.target instanceof Element && event.target.closest("button");
  event.stopPropagation(); // the page below does not handle keys
  if (!action || (event.key === " " && onButton)) return;
  event.preventDefault();
  action();
}
