// The opening of a first visit: whether it is shown, how far it is, and what happens when a word of it is taken.

import { batch, computed, effect, signal, untracked } from "../../vendor/signals/signals.js";
import { parseTrace } from "../core/file.js";
import { TraceLog } from "../core/log.js";
import { command } from "../net/commands.js";
import { session } from "../net/session.js";
import { bytesAt } from "../net/trace_file.js";
import { attends, presents, roaming } from "../state/classroom.js";
import { isEmbedded } from "../state/embedded.js";
import { writeDraft } from "../state/prompts.js";
import { settings } from "../state/settings.js";
import { isSite } from "../state/site.js";
import * as store from "../state/store.js";
import { language } from "../tell/language.js";
import { t } from "../tell/words.js";

/** @typedef {import("../core/film.js").Film} Film */

const MEMORY_KEY = "kvtheater.opening"; // on this device: "seen". Not a setting: a link must not carry it.
const LANGUAGES = new Set(["en", "zh"]); // that there are recordings in
const READY_MS = 6000; // for which a word of the fan waits for the server, before its recorded future is shown

/** Whether the opening is on the screen. */
export const opening = signal(false);
/** Seconds of it that have passed. */
export const time = signal(0);
export const playing = signal(false);
/**
 * The index of the word that was taken, or null.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<number | null>}
 */
export const taken = signal(null);
/** @type {import("../../vendor/signals/signals.js").Signal<Film | null>} */
export const film = signal(null);
/**
 * How the text goes on after each word of the fan.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<string[]>}
 */
export const futures = signal([]);
export const failed = signal(false);

/** The language of the recording: the reader's, or English. */
export const filmLanguage = computed(() => (LANGUAGES.has(language.value) ? language.value : "en"));

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
  "distance",
  "fault",
  "scene",
  "lesson",
  "class",
  "teach",
];

/**
 * Show the opening to somebody who is here for the first time and follows no link to a place.
 *
 * @param {Pick<Storage, "getItem" | "setItem"> | null} memory
 * @param {Record<string, unknown>} asked what the address names
 */
export function offerOpening(memory, asked) {
  storage = memory;
  if (isEmbedded || visited() || PLACES.some((name) => name in asked)) return;
  startOpening();
}

/** Begin it; a page that follows a class is shown it only when its presenter plays it, for all at once. */
export function startOpening() {
  if (settings.class.peek() && !presents.peek()) return;
  begin();
}

function begin() {
  batch(() => {
    opening.value = true;
    time.value = 0;
    taken.value = null;
    playing.value = true;
  });
}

/** The opening is over: on to the first look. */
export function endOpening() {
  batch(() => {
    opening.value = playing.value = false;
    settings.distance.value = presents.peek() ? "room" : "look";
  });
  try {
    storage?.setItem(MEMORY_KEY, "seen");
  } catch {
    // a private window forgets; it can be skipped again
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
    const wanted = filmLanguage.value;
    const isWanted = () => wanted === filmLanguage.peek();
    batch(() => {
      failed.value = false;
      futures.value = []; // another language's are none of this one's
    });
    load(wanted, (found) => isWanted() && (film.value = found)).catch(() => isWanted() && (failed.value = true));
    loadTexts(wanted).then((texts) => isWanted() && (futures.value = texts));
  });
}

/** In a class the opening is where its presenter's is, part by part. Called once. */
export function followFilm() {
  effect(() => {
    if (!attends.value) return;
    const isShown = settings.film.value !== null && !roaming.value;
    untracked(() => (isShown ? opening.peek() || begin() : (opening.value = false)));
  });
}

/**
 * A site's film begins with what its first words need.
 *
 * @param {string} code
 * @param {(film: Film) => void} show
 */
async function load(code, show) {
  const [whole, again] = [folder(`recordings/opening-${code}.kvtrace`), folder(`opening/${code}-plain.kvtrace`)];
  const making = import("../core/film.js");
  if (!isSite) {
    const [{ filmOf }, log, plain] = await Promise.all([making, logAt(whole), logAt(again)]);
    return show(filmOf(log, plain));
  }
  const [{ filmOf }, log] = await Promise.all([making, logAt(folder(`opening/${code}-first.kvtrace`))]);
  show(filmOf(log, null));
  const [bytes, plain] = await Promise.all([bytesAt(whole), logAt(again)]);
  parseTrace(bytes).captures.forEach((arrays, i) => arrays && log.addCapture(i, arrays));
  show(filmOf(log, plain));
}

/** How the text goes on after each word of the fan, as far as known. @param {string} code */
async function loadTexts(code) {
  try {
    return await (await fetch(folder(`opening/${code}-futures.json`))).json();
  } catch {
    return [];
  }
}

// ── A word is taken ──────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Go on with word `k` of the fan: live, where this server can make the recorded run again, else as it was recorded.
 *
 * @param {number} k
 */
export async function take(k) {
  const now = film.peek();
  if (!now || taken.peek() !== null) return;
  taken.value = k;
  if (isSite) await openFuture(`rec-opening-${filmLanguage.peek()}`, now.fanAt, now.fan[k].token_id);
  else if (!(await forkLive(now, k))) await openRecorded(now, k);
  endOpening();
}

/**
 * @param {Film} now
 * @param {number} k
 */
async function forkLive(now, k) {
  if (!(await live()) || store.modelFacts.peek()?.model?.name !== now.log.header.model.name) return false;
  return takeWord(`rec-opening-${filmLanguage.peek()}`, now.fanAt, now.seq, now.fan[k].token_id);
}

/**
 * Make a run again up to the record that chose a word, take `token` in its place, and follow that future. Whether one
 * does; why not is shown.
 *
 * @param {string} theater or a recording
 * @param {number} record
 * @param {number} seq
 * @param {number} token
 */
export async function takeWord(theater, record, seq, token) {
  /** @type {import("../core/wire.js").ForkToken} */
  const change = { kind: "token", seq_id: seq, token_id: token };
  const answer = await command("fork", { theater, at: record, change, follow: false });
  if (!answer || !(await session.watch(answer.theater))) return false;
  settings.seq.value = seq;
  await command("step"); // the word is chosen in the step that computes the one before it
  return true;
}

/**
 * Put the reader's own beginning on stage, in a run of its own. Whether there is one; why not is shown.
 *
 * @param {string} text
 */
export async function writeOwn(text) {
  writeDraft(text);
  if (!(await live(null))) return void store.toast(t("look.own.wait"));
  if (!(await session.startAnew())) return false;
  batch(() => ([settings.seq.value, settings.scene.value] = [null, null]));
  if (opening.peek()) endOpening(); // the first look has a new run read at once
  return true;
}

/**
 * Whether a live run is followed, once that is known or `patience` ms have passed (null: however long the model loads).
 *
 * @param {number | null} patience
 * @returns {Promise<boolean>}
 */
function live(patience = READY_MS) {
  if (store.connection.peek() === "live") return Promise.resolve(true);
  if (store.connection.peek() !== "connecting") return Promise.resolve(false);
  return new Promise((done) => {
    const end = (/** @type {boolean} */ found) => (stop(), clearTimeout(timer), done(found));
    const timer = patience ? setTimeout(() => end(false), patience) : undefined;
    const stop = store.connection.subscribe((now) => now !== "connecting" && queueMicrotask(() => end(now === "live")));
  });
}

/**
 * The futures of a site's recordings; empty elsewhere.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<import("../state/site.js").Future[]>}
 */
export const recordedFutures = signal([]);

/** Learn which futures there are. Called once, on a site. */
export async function loadFutures() {
  recordedFutures.value = await (await fetch("futures.json")).json();
}

/**
 * Follow the recorded future of run `of` with `token` in `record`. Whether there is one.
 *
 * @param {string | null} of
 * @param {number} record
 * @param {number} token
 */
export async function openFuture(of, record, token) {
  const found = recordedFutures.peek().find((one) => one.of === of && one.record === record && one.token_id === token);
  if (!found) return false;
  settings.seq.value = found.seq;
  return session.watch(found.id, record + 1); // after the record that says which word is taken
}

/**
 * @param {Film} now
 * @param {number} k
 */
async function openRecorded(now, k) {
  try {
    const answer = await fetch(folder(`opening/${filmLanguage.peek()}-fork-${k}.kvtrace`));
    if (!answer.ok) throw new Error(String(answer.status));
    session.open(await answer.arrayBuffer());
    settings.seq.value = now.seq;
    store.goTo(now.fanAt + 1); // after the record that says which word is taken
  } catch {
    failed.value = true;
  }
}
