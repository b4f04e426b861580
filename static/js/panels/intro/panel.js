// The intro view of a run: the text so far, a picture of the query's attention, one sentence and one action.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { step } from "../../control/actions.js";
import { forkWithToken, openFuture, recordedFutures, startOpening } from "../../control/opening.js";
import { stepRecord } from "../../control/playback.js";
import { wordOf } from "../../core/film.js";
import { heldIn } from "../../core/groups.js";
import { joinText } from "../../core/labels.js";
import { kvTerms } from "../../core/metrics.js";
import { atInstance, inWords } from "../../i18n/operations.js";
import { plainSentencesOf } from "../../i18n/plain_sentence.js";
import { bytesText, langOf, sentences, t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { useFirstFocus, useReturnedFocus } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { loadingSentence } from "../../kit/model_loading.js";
import { LanguageSwitch } from "../../kit/preferences.js";
import { textLines } from "../../kit/text_line.js";
import { requestLayer } from "../../net/commands.js";
import { session } from "../../net/session.js";
import { attends } from "../../state/classroom.js";
import { phases } from "../../state/playhead.js";
import { draft } from "../../state/prompts.js";
import { settings } from "../../state/settings.js";
import * as store from "../../state/store.js";
import { isSite } from "../../state/without_server.js";
import { Fan } from "./fan.js";
import { NextLinks, OwnPrompt, stepNewRun } from "./next_steps.js";
import { headShown, keepHead, missingArrays, paintRecord } from "./paint_record.js";

/** @import {Word} from "../../core/film.js" */
/** @import {View} from "../../state/store.js" */

/** Whether the alternative words are shown instead of the picture. */
const fanOpen = signal(false);
/**
 * Index of the word being chosen, or null.
 * @type {import("../../../vendor/signals/signals.js").Signal<number | null>}
 */
const taken = signal(null);
const MAX_WORDS = 5;
const MAX_SENTENCES = 2;

export function Panel() {
  useEffect(stepNewRun, []);
  useFirstFocus("intro", "intro-step");
  const now = store.sequenceView.value;
  const live = store.connection.value === "live";
  const atEnd = store.viewIndex.value >= store.numRecords.value - 1;
  const isFinished = now?.seq.status === "finished" && atEnd;
  const words = now?.output ? wordsOf(now.output) : [];
  const open = fanOpen.value && now !== null && words.length > 1;
  useReturnedFocus(open, "intro-step");
  const sentence = sentenceNow(isFinished, open);
  return html`<main class="intro" id="intro" data-records=${store.numRecords.value}>
    <div class="opening-head">
      <span class="wordmark"><span class="wordmark-kv"><i>K</i><i>V</i></span> Theater</span>
      <span class="opening-source">${sourceText()}</span>
      <span class="opening-tools"><${LanguageSwitch} />
        ${attends.value ? null : html`<${Replay} />`}</span>
    </div>
    <div class="intro-middle">
      <${TextSoFar} now=${now} />
      ${open ? html`<${Alternatives} words=${words} now=${now} />` : html`<${Picture} />`}
      <p class="intro-head num"><span id="intro-kept">${now && !open ? keptText(now) : ""}</span><span
        id="intro-head">${now?.query != null && !open ? headText(now) : ""}</span></p>
    </div>
    <p class="opening-sentence" id="intro-sentence" aria-live="polite"><span key=${sentence}>${sentence}</span></p>
    <div class="intro-controls">
      <button class="quiet" id="intro-back" disabled=${store.viewIndex.value < 1}
        onClick=${() => stepRecord(-1)}>${t("intro.first.back")}</button>
      <button class="command primary" id="intro-step" disabled=${isFinished || (!live && atEnd)}
        onClick=${() => (live && atEnd ? step() : stepRecord(1))}>${t("intro.first.step")}</button>
      <button class="quiet" id="intro-fan" aria-pressed=${open} disabled=${words.length < 2}
        onClick=${() => (fanOpen.value = !fanOpen.value)}>${t(
          open ? "intro.first.fan.close" : "intro.first.fan",
        )}</button>
      <${OwnPrompt} />
    </div>
    <${NextLinks} />
  </main>`;
}

const Replay = () => html`<button class="tool" id="intro-opening" aria-label=${t("intro.first.opening")}
  title=${t("intro.first.opening")} onClick=${startOpening}><${Icon} name="play" /></button>`;

/** Kind of the run (live or recorded), or the state of the connection if there is no run. */
function sourceText() {
  const now = store.connection.value;
  if (now === "live") return html`<i aria-hidden="true">●</i> ${t("intro.live")}`;
  if (now === "replay" || now === "gone") return html`<i aria-hidden="true">▷</i> ${t("intro.recorded")}`;
  return html`<i aria-hidden="true">◌</i> ${t(`connection.${store.isLoading.value ? "loading" : now}`)}`;
}

/** @param {boolean} isFinished @param {boolean} open */
function sentenceNow(isFinished, open) {
  const { value: log } = store.log;
  const index = store.viewIndex.value;
  if (!log || index < 0) return loadingSentence() || (store.connection.value === "lost" ? "" : t("intro.first.empty"));
  if (open) return t(session.run || recordedFutures.value.length ? "intro.choose" : "intro.first.recorded");
  if (isFinished) return t("intro.first.end");
  const texts = plainSentencesOf(log, index, store.shownSeq.value, true).map(inWords).slice(0, MAX_SENTENCES);
  return sentences(atInstance(log, index, texts));
}

/** Cache usage of the text in tokens, bytes and blocks. @param {View} now */
function keptText({ log, numFilled: n, table }) {
  const blocks = heldIn(table).length;
  const bytesPerToken = kvTerms(log.header).bytes_per_token;
  return blocks && n
    ? t("intro.first.kept", { n, each: bytesText(bytesPerToken), bytes: bytesText(n * bytesPerToken), blocks })
    : "";
}

/** Name of the head whose attention is shown. @param {View} now */
function headText(now) {
  store.captureVersion.value; // dependency: the first arrays determine the head
  const { num_layers, num_heads } = now.log.header.model;
  return t("intro.first.head", { ...headShown(now), n: num_layers * num_heads });
}

/** The text so far as running text. @param {{now: View | null}} props */
function TextSoFar({ now }) {
  if (!now) return html`<p class="intro-text prompt" lang=${langOf(draft.value)}>${draft.value}</p>`;
  const { token_bytes: bytes, num_prompt_tokens: count } = now.seq;
  const prompt = joinText(bytes.slice(0, count));
  return html`<p class="intro-text" lang=${langOf(prompt)}><span class="prompt">${textLines(prompt)}</span><span
    class="generated">${textLines(joinText(bytes.slice(count)))}</span></p>`;
}

/** @param {import("../../core/trace.js").Output} output @returns {Word[]} */
const wordsOf = (output) =>
  output.top
    .slice(0, MAX_WORDS)
    .map((one) => ({ token_id: one.token_id, text: wordOf(one.token_bytes), p: Math.exp(one.logprob) }));

/** @param {{words: Word[], now: View}} props */
function Alternatives({ words, now }) {
  const theater = session.run?.theater ?? (isSite ? settings.recording.value : null);
  const stem = joinText(now.seq.token_bytes.slice(0, (now.query ?? -1) + 1));
  const token = (/** @type {number} */ k) => words[k].token_id;
  const isRecorded = (/** @type {number} */ k) =>
    recordedFutures.value.some((one) => one.of === theater && one.record === now.index && one.token_id === token(k));
  const choose = async (/** @type {number} */ k) => {
    if (!theater || taken.peek() !== null) return;
    taken.value = k;
    keepHead(now);
    const done = isSite
      ? openFuture(theater, now.index, token(k))
      : forkWithToken(theater, now.index, now.seq.seq_id, token(k));
    if (await done) fanOpen.value = false;
    taken.value = null;
  };
  const canChoose = isSite ? isRecorded : () => session.run !== null;
  return html`<${Fan} stem=${stem} words=${words} taken=${taken} choose=${choose} canChoose=${canChoose} />`;
}

function Picture() {
  const ref = usePainter(
    () => [store.sequenceView.value, store.captureVersion.value, themeVersion.value, phases()],
    (element, size) => {
      const c = prepare(/** @type {HTMLCanvasElement} */ (element.firstElementChild), size.width, size.height);
      const now = store.sequenceView.peek();
      if (!now || !size.width) return;
      paintRecord(c, size, now);
      for (const { record, layer } of missingArrays(now)) requestLayer(record, layer);
    },
  );
  return html`<div class="opening-picture"><div class="opening-canvas" ref=${ref}><canvas
    aria-hidden="true"></canvas></div></div>`;
}
