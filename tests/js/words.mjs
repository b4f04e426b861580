// The page's words for tests without a server: the same files that app/page/words.py serves.

import { readdirSync, readFileSync } from "node:fs";

import { language } from "../../static/js/i18n/language.js";
import { addWords } from "../../static/js/i18n/words.js";
import { tellingTexts } from "./message_texts.mjs";
import { texts as optionTexts } from "./options.mjs";

export const JS = new URL("../../static/js/", import.meta.url);

const joined = (text) => (Array.isArray(text) ? text.join("") : text);
const read = (name) => JSON.parse(readFileSync(new URL(name, JS), "utf8"));
const files = readdirSync(JS, { recursive: true }).map(String);

/** Key -> text of every room, in one language. */
function textsOf(code) {
  const gains = JSON.parse(readFileSync(new URL(`../../engine/bench/words/gains.${code}.json`, JS), "utf8"));
  const texts = { ...optionTexts[code], ...tellingTexts(code), ...gains };
  for (const name of files.filter((one) => new RegExp(`(words|lazy)\\.${code}\\.json$`).test(one)))
    for (const [key, text] of Object.entries(read(name))) texts[key] = joined(text);
  return texts;
}

function glossaryOf(code) {
  const entries = (terms) => Object.entries(terms).map(([id, [term, ...parts]]) => [id, [term, joined(parts)]]);
  const groups = Object.entries(read(`i18n/glossary.${code}.json`));
  return Object.fromEntries(groups.map(([group, terms]) => [group, Object.fromEntries(entries(terms))]));
}

export const en = textsOf("en");
export const zh = textsOf("zh");
export const glossary = { en: glossaryOf("en"), zh: glossaryOf("zh") };
addWords("en", { texts: en, glossary });
addWords("zh", { texts: zh, glossary });

/** Write the page in `code` from now on. */
export const speak = (code) => (language.value = code);
