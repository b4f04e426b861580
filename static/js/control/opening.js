// Opening film of a first visit: visibility, position, and the choice of its next word.

import { batch, computed, effect, signal, untracked } from "../../vendor/signals/signals.js";
import { parseTrace } from "../core/file.js";
import { TraceLog } from "../core/log.js";
import { language } from "../i18n/language.js";
import { t } from "../i18n/words.js";
import { command } from "../net/commands.js";
import { session } from "../net/session.js";
import { bytesAt } from "../net/trace_file.js";
import { attends, presents, roaming } from "../state/classroom.js";
import { writeDraft } from "../state/prompts.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { isEmbedded, isSite } from "../state/without_server.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */
/** @import {Film} from "../core/film.js" */

const MEMORY_KEY = "kvtheater.opening"; // on this device: "seen". Not a setting, as a link must not contain it.
const LANGUAGES = new Set(["en", "zh"]); // languages with recordings
const READY_MS = 6000; // wait for the server before a recorded continuation is shown

/** Whether the opening is on screen. */
export const opening = signal(false);
/** Elapsed seconds of the opening. */
export const time = signal(0);
export const playing = signal(false);
/** Index of the chosen word, or null. @type {Signal<number | null>} */
export const chosenWord = signal(null);
/** @type {Signal<Film | null>} */
export const film = signal(null);
/** Continuation of the text for each word of the fan. @type {Signal<string[]>} */
export const futures = signal([]);
export const failed = signal(false);

/** Language of the recording: the page's, or English. */
const filmLanguage = computed(() => (LANGUAGES.has(language.value) ? language.value : "en"));

/** @type {Pick<Storage, "getItem" | "setItem"> | null} */
let storage = null;

/** @type {(keyof import("../state/settings.js").Settings)[]} */
const PLACES = [
  "theater",
  "recording",
  "step",
  "exhibit",
  "run_a",
  "run_b",
  "detail",
  "viewMode",
  "fault",
  "scene",
  "lesson",
  "class",
  "teach",
];

/**
 * Show the opening on a first visit whose link has none of the settings PLACES.
 * @param {Pick<Storage, "getItem" | "setItem"> | null} memory
 * @param {Record<string, unknown>} address settings in the address
 */
export function offerOpening(memory, address) {
  storage = memory;
  if (isEmbedded || visited() || PLACES.some((name) => name in address)) return;
  startOpening();
}

/** Start the opening. A page that follows a class shows it only when the presenter plays it. */
export function startOpening() {
  if (settings.class.peek() && !presents.peek()) return;
  begin();
}

function begin() {
  batch(() => {
    opening.value = true;
    time.value = 0;
    chosenWord.value = null;
    playing.value = true;
  });
}

/** End the opening and go to the intro view. */
export function endOpening() {
  batch(() => {
    opening.value = playing.value = false;
    settings.viewMode.value = presents.peek() ? "present" : "intro";
  });
  try {
    storage?.setItem(MEMORY_KEY, "seen");
  } catch {
    // not stored in a private window; the next visit shows it again
  }
}

function visited() {
  try {
    return Boolean(storage?.getItem(MEMORY_KEY) ?? storage?.getItem("kvtheater.tour"));
  } catch {
    return false;
  }
}

// ── The recordings ───────────────────────────────────────────────────────────────────────────────────────────────────

const folder = (/** @type {string} */ path) => {
  const ofSite = isSite && path.startsWith("recordings/");
  return new URL(ofSite ? path.replace("recordings/", "runs/rec-") : `static/${path}`, document.baseURI);
};

/** @param {URL} address */
async function logAt(address) {
  const trace = parseTrace(await bytesAt(address));
  const log = new TraceLog(trace.header);
  trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  return log;
}

/** Load the film of the page's language whenever the opening is shown. Called once. */
export function followOpening() {
  effect(() => {
    if (!opening.value) return;
    const code = filmLanguage.value;
    const isCurrent = () => code === filmLanguage.peek();
    batch(() => {
      failed.value = false;
      futures.value = []; // those of another language
    });
    load(code, (found) => isCurrent() && (film.value = found)).catch(() => isCurrent() && (failed.value = true));
    loadTexts(code).then((texts) => isCurrent() && (futures.value = texts));
  });
}

/** Show the opening while the presenter plays it. Called once. */
export function followFilm() {
  effect(() => {
    if (!attends.value) return;
    const isShown = settings.film.value !== null && !roaming.value;
    untracked(() => (isShown ? opening.peek() || begin() : (opening.value = false)));
  });
}

/**
 * Load a film. On a site, show the first words from a smaller file before.
 * @param {string} code
 * @param {(film: Film) => void} show
 */
async function load(code, show) {
  const [cached, plainFile] = [folder(`recordings/opening-${code}.kvtrace`), folder(`opening/${code}-plain.kvtrace`)];
  const filmModule = import("../core/film.js");
  if (!isSite) {
    const [{ filmOf }, log, plain] = await Promise.all([filmModule, logAt(cached), logAt(plainFile)]);
    return show(filmOf(log, plain));
  }
  const [{ filmOf }, log] = await Promise.all([filmModule, logAt(folder(`opening/${code}-first.kvtrace`))]);
  show(filmOf(log, null));
  const [bytes, plain] = await Promise.all([bytesAt(cached), logAt(plainFile)]);
  parseTrace(bytes).captures.forEach((arrays, i) => arrays && log.addCapture(i, arrays));
  show(filmOf(log, plain));
}

/** Load the recorded continuations of the fan's words; none if that fails. @param {string} code */
async function loadTexts(code) {
  try {
    return await (await fetch(folder(`opening/${code}-futures.json`))).json();
  } catch {
    return [];
  }
}

// ── Choosing a word ──────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Continue with word `k` of the fan: live if the server can replay the recorded run, otherwise from its recording.
 * @param {number} k
 */
export async function chooseWord(k) {
  const now = film.peek();
  if (!now || chosenWord.peek() !== null) return;
  chosenWord.value = k;
  if (isSite) await openFuture(`rec-opening-${filmLanguage.peek()}`, now.fanAt, now.fan[k].token_id);
  else if (!(await forkLive(now, k))) await openRecorded(now, k);
  endOpening();
}

/** @param {Film} now @param {number} k */
async function forkLive(now, k) {
  if (!(await untilLive()) || store.modelFacts.peek()?.model?.name !== now.log.header.model.name) return false;
  return forkWithToken(`rec-opening-${filmLanguage.peek()}`, now.fanAt, now.seq, now.fan[k].token_id);
}

/**
 * Replay a run up to the record that chose a token, choose `token` instead, and follow that fork. Returns whether it
 * succeeded; a refusal is shown.
 * @param {string} theater session or recording
 * @param {number} record
 * @param {number} seq
 * @param {number} token
 */
export async function forkWithToken(theater, record, seq, token) {
  /** @type {import("../core/wire.js").ForkToken} */
  const change = { kind: "token", seq_id: seq, token_id: token };
  const answer = await command("fork", { theater, at: record, change, follow: false });
  if (!answer || !(await session.watch(answer.theater))) return false;
  settings.seq.value = seq;
  await command("step"); // the word is chosen in the step that computes its predecessor
  return true;
}

/** Show a new run for the user's own text. Returns whether it succeeded; errors are displayed. @param {string} text */
export async function writeOwn(text) {
  writeDraft(text);
  if (!(await untilLive(null))) return void store.toast(t("intro.own.wait"));
  if (!(await session.startNewRun())) return false;
  batch(() => ([settings.seq.value, settings.scene.value] = [null, null]));
  if (opening.peek()) endOpening(); // the intro view starts the new run
  return true;
}

/**
 * Wait until a live run is followed, for at most `patience` ms (null: until the model is loaded). Returns
 * whether one is followed.
 * @param {number | null} patience
 * @returns {Promise<boolean>}
 */
function untilLive(patience = READY_MS) {
  if (store.connection.peek() === "live") return Promise.resolve(true);
  if (store.connection.peek() !== "connecting") return Promise.resolve(false);
  return new Promise((done) => {
    const end = (/** @type {boolean} */ found) => (stop(), clearTimeout(timer), done(found));
    const timer = patience ? setTimeout(() => end(false), patience) : undefined;
    const stop = store.connection.subscribe((now) => now !== "connecting" && queueMicrotask(() => end(now === "live")));
  });
}

/** Recorded forks of a site; empty elsewhere. @type {Signal<import("../state/without_server.js").Future[]>} */
export const recordedFutures = signal([]);

/** Load the list of recorded forks. Called once, on a site. */
export async function loadFutures() {
  recordedFutures.value = await (await fetch("futures.json")).json();
}

/**
 * Show the recorded fork of run `source` with `token` in `record`. Returns whether there is one.
 * @param {string | null} source
 * @param {number} record
 * @param {number} token
 */
export async function openFuture(source, record, token) {
  const found = recordedFutures
    .peek()
    .find((one) => one.of === source && one.record === record && one.token_id === token);
  if (!found) return false;
  settings.seq.value = found.seq;
  return session.watch(found.id, record + 1); // after the record that shows which word is chosen
}

/** @param {Film} now @param {number} k */
async function openRecorded(now, k) {
  try {
    const answer = await fetch(folder(`opening/${filmLanguage.peek()}-fork-${k}.kvtrace`));
    if (!answer.ok) throw new Error(String(answer.status));
    session.open(await answer.arrayBuffer());
    settings.seq.value = now.seq;
    store.goTo(now.fanAt + 1); // after the record that shows which word is chosen
  } catch {
    failed.value = true;
  }
}
