// A page in one file has its log inside, and no server: here it is found.

const element = globalThis.document?.getElementById("embedded-log") ?? null;

/** Whether this page is such a file. */
export const isEmbedded = element !== null;

/** The `.kvtrace` inside the page, as an ArrayBuffer. */
export async function embeddedTrace() {
  const bytes = Uint8Array.from(atob(element?.textContent ?? ""), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/**
 * The words of a language inside the page.
 *
 * @param {string} code
 */
export const embeddedWords = (code) => JSON.parse(document.getElementById("page-words")?.textContent ?? "{}")[code];
