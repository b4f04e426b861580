// A page in one file has its log inside, or a lesson with its logs, and no server: here it is found.

const LOG = "embedded-log";
const LESSON = "embedded-lesson"; // its runs: -<language>-<run> after it

/** @param {string} id */
const has = (id) => globalThis.document?.getElementById(id) != null;

/** Whether it has one log inside. */
export const hasTrace = has(LOG);

/** Whether it has a lesson inside. */
export const hasLesson = has(LESSON);

/** Whether this page is such a file. */
export const isEmbedded = hasTrace || hasLesson;

/** @param {string} id of the element that has it @returns {Promise<ArrayBuffer>} */
function inflated(id) {
  const packed = document.getElementById(id)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** The `.kvtrace` inside the page, as an ArrayBuffer; null where it has a lesson. */
export const embeddedTrace = async () => (hasTrace ? inflated(LOG) : null);

/**
 * The lesson inside the page.
 *
 * @typedef {import("../core/retold.js").Transcript} Transcript
 * @returns {Promise<{card: import("../core/wire.js").Card, transcripts: Record<string, Transcript>}>}
 */
export const embeddedLesson = async () => JSON.parse(new TextDecoder().decode(await inflated(LESSON)));

/**
 * The `.kvtrace` of a run of the lesson inside the page.
 *
 * @param {string} code of a language
 * @param {number} run
 */
export const embeddedRun = (code, run) => inflated(`${LESSON}-${code}-${run}`);

/**
 * The words of a language inside the page.
 *
 * @param {string} code
 */
export const embeddedWords = (code) => JSON.parse(document.getElementById("page-words")?.textContent ?? "{}")[code];
