// Words of lazily loaded panels, fetched with the panel's code. The first panel also loads the long descriptions of
// operations.

import { language, languageOf } from "../i18n/language.js";
import { addMoreWords } from "../i18n/words.js";

/** @type {Set<string>} folders of panels that are shown or being loaded */
const panels = new Set();
/** @type {Set<string>} addresses already loaded */
const loaded = new Set();

/**
 * Load a panel's words in the current language and in any language chosen later.
 * @param {string} panel folder of the panel
 */
export async function addLazyWords(panel) {
  panels.add(panel);
  while (await loadLazyWords(language.peek()));
}

/**
 * Fetch the missing words of all shown lazy panels in `code`. Returns whether any were missing, as a panel may have
 * been added since.
 * @param {string} code
 */
export async function loadLazyWords(code) {
  const missing = [...panels]
    .map((panel) => `static/js/panels/${panel}/lazy.${code}.json`)
    .concat(panels.size ? `words/telling/${code}.json` : [])
    .filter((address) => !loaded.has(address));
  await Promise.all(
    missing.map(async (address) => {
      addMoreWords(code, languageOf(code)?.isComplete ? await textsAt(address) : await textsOrEnglish(address, code));
      loaded.add(address);
    }),
  );
  return missing.length > 0;
}

/** @param {string} address */
async function textsAt(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return joined(await answer.json());
}

/**
 * Fetch the texts of a language; English texts fill in for missing ones, or for a missing file.
 * @param {string} address
 * @param {string} code
 */
async function textsOrEnglish(address, code) {
  const english = await textsAt(address.replace(`${code}.json`, "en.json"));
  const answer = await fetch(address);
  if (answer.status === 404) return english;
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return { ...english, ...joined(await answer.json()) };
}

/** Join long texts, which are stored as one array element per line. @param {Record<string, string | string[]>} texts */
const joined = (texts) =>
  Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Array.isArray(text) ? text.join("") : text]));
