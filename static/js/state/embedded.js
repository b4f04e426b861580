// Access to the log or lesson embedded in a single-file page, which has no server.

/** @import {Transcript} from "../core/lesson_replay.js" */

const LOG = "embedded-log";
const LESSON = "embedded-lesson"; // prefix of its runs: -<language>-<run> follows

/** @param {string} id */
const has = (id) => globalThis.document?.getElementById(id) != null;

/** Whether the page embeds a log. */
export const hasTrace = has(LOG);

/** Whether the page embeds a lesson. */
export const hasLesson = has(LESSON);

/** Whether this is a single-file page. */
export const isEmbedded = hasTrace || hasLesson;

/** @param {string} id of the element that holds the data @returns {Promise<ArrayBuffer>} */
function inflated(id) {
  const packed = document.getElementById(id)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Return the embedded `.kvtrace` as an ArrayBuffer; null if the page embeds a lesson. */
export const embeddedTrace = async () => (hasTrace ? inflated(LOG) : null);

/**
 * Return the embedded lesson.
 * @returns {Promise<{card: import("../core/wire.js").Card, transcripts: Record<string, Transcript>}>}
 */
export const embeddedLesson = async () => JSON.parse(new TextDecoder().decode(await inflated(LESSON)));

/** Return the `.kvtrace` of one run of the embedded lesson. @param {string} code of a language @param {number} run */
export const embeddedRun = (code, run) => inflated(`${LESSON}-${code}-${run}`);

/** Return the embedded words of a language. @param {string} code */
export const embeddedWords = (code) => JSON.parse(document.getElementById("page-words")?.textContent ?? "{}")[code];
