// Words that only a part of the page says whose code comes when it is first shown: they come with it. With the first of
// them comes what tells operations at length.

import { language, languageOf } from "../tell/language.js";
import { addMoreWords } from "../tell/words.js";

/** @type {Set<string>} folders of panels that are shown, or will be */
const panels = new Set();
/** @type {Set<string>} addresses of those that are here */
const here = new Set();

/**
 * A panel's late words, in the page's language now and in whichever it turns to.
 *
 * @param {string} panel its folder
 */
export async function addLateWords(panel) {
  panels.add(panel);
  while (await bringLateWords(language.peek()));
}

/**
 * Fetch what `code` lacks of the late words of all panels that are shown. Whether there was any: a panel may have come
 * meanwhile.
 *
 * @param {string} code
 */
export async function bringLateWords(code) {
  const missing = [...panels]
    .map((panel) => `static/js/panels/${panel}/late.${code}.json`)
    .concat(panels.size ? `words/telling/${code}.json` : [])
    .filter((address) => !here.has(address));
  await Promise.all(
    missing.map(async (address) => {
      addMoreWords(code, languageOf(code)?.whole ? await textsAt(address) : await textsOrEnglish(address, code));
      here.add(address);
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
 * Texts of a language that may lack some, or the whole file: English ones stand for them.
 *
 * @param {string} address @param {string} code
 */
async function textsOrEnglish(address, code) {
  const english = await textsAt(address.replace(`${code}.json`, "en.json"));
  const answer = await fetch(address);
  if (answer.status === 404) return english;
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return { ...english, ...joined(await answer.json()) };
}

/**
 * A long text is written in parts, a line each.
 *
 * @param {Record<string, string | string[]>} texts
 */
const joined = (texts) =>
  Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Array.isArray(text) ? text.join("") : text]));
