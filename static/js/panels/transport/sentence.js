// The sentence about the shown record, or about one of its sub-steps.

import { useEffect, useLayoutEffect, useRef } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { player } from "../../control/player.js";
import { sceneEnd } from "../../control/restart.js";
import { endOf } from "../../core/drafts.js";
import { attentionRow } from "../../core/sequence_view.js";
import { atInstance, inWords } from "../../i18n/operations.js";
import { plainSentencesOf } from "../../i18n/plain_sentence.js";
import { sentencesOf } from "../../i18n/sentence.js";
import { sentences } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { addLazyWords } from "../../state/lazy_words.js";
import { drawnIndex, PHASES, playedSub, viewSub } from "../../state/playhead.js";
import { settings } from "../../state/settings.js";
import { captureVersion, head, layer, log, numRecords, shownSeq, viewIndex } from "../../state/store.js";
import { isEmbedded } from "../../state/without_server.js";

/** @typedef {typeof import("./phase_sentence.js").phaseSentencesOf} PhaseSentences */

/** @type {import("../../../vendor/signals/signals.js").Signal<PhaseSentences | null>} */
const phaseSentences = signal(null);
let isRequested = false;

/** Sentence function of sub-steps, or null until it is loaded with its texts. The first call starts the loading. */
function subSteps() {
  if (!isRequested) {
    isRequested = true;
    Promise.all([import("./phase_sentence.js"), isEmbedded ? null : addLazyWords("transport")]).then(
      ([found]) => (phaseSentences.value = found.phaseSentencesOf),
      () => (isRequested = false),
    );
  }
  return phaseSentences.value;
}

/**
 * Return the sentences about record `index` in the page's language: about sub-step `sub`, or about the complete record.
 * @param {number} index @param {number | null} sub
 * @param {any} [attention] attention row for sub-steps about it
 */
export function sentencesAt(index, sub, attention = null) {
  if (!log.value || index >= numRecords.value) return [];
  const plain = settings.telling.value === "plain";
  const recordSentences = plain ? plainSentencesOf : sentencesOf;
  const subStepSentences = sub === null ? null : subSteps();
  const found =
    sub === null || !subStepSentences
      ? recordSentences(log.value, index, shownSeq.value)
      : subStepSentences(log.value, index, PHASES[sub], shownSeq.value, attention, plain ? "plain" : "short");
  return atInstance(log.value, index, found.map(inWords));
}

export function Sentence() {
  const index = viewIndex.value;
  const shownSub = viewSub.value ?? (playedSub.value !== null && drawnIndex.value === index ? playedSub.value : null);
  const sub = shownSub === null || subSteps() ? shownSub : null; // null until the texts are loaded
  const own = sub === null ? player.value.sentence() : null;
  const parts = own === null ? sentencesAt(index, sub, attentionShown(index, sub)) : [own];
  const inCard = settings.viewMode.value === "present"; // the scene's card shows the outcome there
  const end = own === null && sub === null && !inCard && index === numRecords.value - 1 ? sceneEnd.value : null;
  const text = sentences(end ? [end, parts[0]] : parts); // a finished scene starts with its outcome
  const phase = own === null && log.value?.records[index]?.batch?.find((e) => e.seq_id === shownSeq.value)?.phase;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => fitText(box.current), [text, phase]);
  return html`<p class="sentence" id="sentence" ref=${box} onScroll=${() => markOverflow(box.current)}
      data-sub=${sub === null ? "" : PHASES[sub]}>
      ${phase ? html`<span class=${`phase ${phase}`}><${Term} id=${phase} /></span>` : null}${text}
    </p>
    <${Announcement} text=${text} />`;
}

/** Reduce the font size of a long sentence so that it fits its fixed area. @param {HTMLElement | null} element */
function fitText(element) {
  if (!element) return;
  element.dataset.long = "false";
  element.dataset.long = String(element.scrollHeight > element.clientHeight + 1);
  element.scrollTop = 0;
  markOverflow(element);
}

/** Mark whether text continues below the visible part. @param {HTMLElement | null} element */
function markOverflow(element) {
  if (!element) return;
  element.dataset.below = String(element.scrollTop + element.clientHeight < element.scrollHeight - 2);
  if (element.scrollHeight > element.clientHeight + 2)
    element.tabIndex = 0; // allow scrolling by keyboard
  else element.removeAttribute("tabindex");
}

/**
 * Return the attention row of the chosen layer and head in sub-step `attend`, or null if it is not captured.
 * @param {number} index @param {number | null} sub
 */
function attentionShown(index, sub) {
  if (sub === null || PHASES[sub] !== "attend") return null;
  captureVersion.value; // dependency: the row may arrive later
  const record = log.value?.records[index];
  const entry = record?.batch?.find((e) => e.seq_id === shownSeq.value);
  const query = record && entry ? endOf(record, entry) - 1 : 0;
  const row = entry && log.value && attentionRow(log.value, index, entry.seq_id, layer.value, head.value, query);
  return row && { ...row, layer: layer.value, head: head.value };
}

/**
 * Announce the sentence to screen readers once it is stable, so that fast playback does not announce every step.
 * @param {{text: string}} props
 */
function Announcement({ text }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const announce = useRef(/** @type {ReturnType<typeof announcer> | null} */ (null));
  announce.current ??= announcer((announced) => {
    if (ref.current) ref.current.textContent = announced;
  });
  useEffect(() => announce.current?.(text), [text]);
  return html`<p class="visually-hidden" role="status" aria-live="polite" aria-atomic="true" id="announcement"
    ref=${ref}></p>`;
}

// Rate limiting of announced sentences: once they stop changing, and occasionally while they change fast.

const QUIET_MS = 500; // without another sentence, before the last one is announced
const MAX_WAIT_MS = 5000; // between two announcements while sentences change

/** @typedef {Pick<typeof globalThis, "setTimeout" | "clearTimeout" | "performance">} Clock */

/**
 * Return a function that receives every sentence and calls `say` with some of them. The last one is always announced.
 * @param {(text: string) => void} say
 * @param {{quiet?: number, longest?: number, clock?: Clock}} [options] times in ms
 */
export function announcer(say, { quiet = QUIET_MS, longest = MAX_WAIT_MS, clock = globalThis } = {}) {
  /** @type {ReturnType<Clock["setTimeout"]> | undefined} */
  let timer;
  /** @type {number | null} */
  let waitingSince = null;
  let latest = "";
  const speak = () => {
    clock.clearTimeout(timer);
    waitingSince = null;
    say(latest);
  };
  /** @param {string} text */
  return (text) => {
    latest = text;
    const now = clock.performance.now();
    waitingSince ??= now;
    clock.clearTimeout(timer);
    timer = clock.setTimeout(speak, Math.max(0, Math.min(quiet, waitingSince + longest - now)));
  };
}
