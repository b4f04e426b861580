// Pages without a server: a single file that embeds a log or a lesson, and a static site (`kvtheater export --site`)
// with recordings as files.

import { settings } from "./settings.js";

/** @import {Transcript} from "../core/lesson_replay.js" */

const LOG = "embedded-log";
const LESSON = "embedded-lesson"; // its runs have the ids embedded-lesson-<language>-<run>

/** @param {string} id */
const hasElement = (id) => globalThis.document?.getElementById(id) != null;

/** Whether the page embeds a log. */
export const hasTrace = hasElement(LOG);

/** Whether the page embeds a lesson. */
export const hasLesson = hasElement(LESSON);

/** Whether this is a single-file page. */
export const isEmbedded = hasTrace || hasLesson;

/** @param {string} id of the element with the data @returns {Promise<ArrayBuffer>} */
function unpack(id) {
  const packed = document.getElementById(id)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Return the embedded `.kvtrace` as an ArrayBuffer; null if the page embeds a lesson. */
export const embeddedTrace = async () => (hasTrace ? unpack(LOG) : null);

/**
 * Return the embedded lesson.
 * @returns {Promise<{card: import("../core/wire.js").Card, transcripts: Record<string, Transcript>}>}
 */
export const embeddedLesson = async () => JSON.parse(new TextDecoder().decode(await unpack(LESSON)));

/** Return the `.kvtrace` of one run of the embedded lesson. @param {string} code of a language @param {number} run */
export const embeddedRun = (code, run) => unpack(`${LESSON}-${code}-${run}`);

/** Return the embedded words of a language. @param {string} code */
export const embeddedWords = (code) => JSON.parse(document.getElementById("page-words")?.textContent ?? "{}")[code];

/** Whether the page belongs to a static site. */
export const isSite = globalThis.document?.getElementById("kvtheater-site") != null;

/** Return the address of a recording on a site. @param {string} id */
export const siteRecording = (id) => `runs/${id}.kvtrace`;

/**
 * Return the address of a recorded lesson's transcript on a site.
 * @param {string} lesson
 * @param {string} code of a language
 */
export const siteLesson = (lesson, code) => `lessons/${lesson}.${code}.json`;

/** @param {string} lesson @param {string} code @param {number} run */
export const siteLessonRun = (lesson, code, run) => `lessons/${lesson}.${code}.${run}.kvtrace`;

/** Return the recording that a site shows by default. */
export const firstOfSite = () => `rec-opening-${settings.lang.value}`;

/**
 * Recorded fork: the run `of` continued with `token_id` for sequence `seq` in `record`.
 *
 * @typedef {{of: string, record: number, seq: number, token_id: number, id: string}} Future
 */
