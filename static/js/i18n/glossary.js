// Glossary: the field's terms with definitions in every language, used by terms, tooltips and the help.

import { LANGUAGES, language } from "./language.js";
import { GLOSSARIES } from "./words.js";

/**
 * @typedef {import("./words.js").Term} Term
 * @typedef {{id: string, group: string, own: Term, other: Term, otherLanguage: typeof LANGUAGES[0]}} FoundTerm
 */

/** Return the groups of the glossary, in the order of the help. */
export const groupsOfTerms = () => Object.keys(GLOSSARIES[language.value]);

/**
 * Return a term in the page's language and in a second one: {id, group, own: [term, definition], other, otherLanguage}.
 * @param {string} id
 * @returns {FoundTerm | undefined}
 */
export function termOf(id) {
  const other = otherLanguage();
  for (const [group, entries] of Object.entries(GLOSSARIES[language.value]))
    if (Object.hasOwn(entries, id))
      return { id, group, own: entries[id], other: GLOSSARIES[other.code][group][id], otherLanguage: other };
  return undefined;
}

/**
 * Return the second language, since readers often know a term in another one: English beside all others, Chinese beside
 * English.
 * @returns {typeof LANGUAGES[0]}
 */
const otherLanguage = () => LANGUAGES.find((one) => (one.code === "en") !== (language.value === "en")) ?? LANGUAGES[0];

/**
 * Return the terms whose name or definition, in either language, contains every word of `query`.
 * @param {string} query
 */
export function findTerms(query) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  const ids = Object.values(GLOSSARIES[language.value]).flatMap((entries) => Object.keys(entries));
  return ids
    .flatMap((id) => termOf(id) ?? [])
    .filter(({ id, own, other }) => {
      const text = [id, ...own, ...other].join("\n").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
}
