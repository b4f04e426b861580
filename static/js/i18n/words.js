// Texts of the page in its language: `t(key, {n: 3})`; `{n|key|keys}` in a text chooses by number.

import { LANGUAGES, language, onGpu } from "./language.js";

/** @typedef {Record<string, any>} Values by their names in a text; any type that converts to text */
/** @typedef {[term: string, definition: string]} Term */
/** @typedef {Record<string, Record<string, Term>>} Glossary group -> id -> term */

/** @type {Record<string, Record<string, string>>} code -> key -> text */
const TEXTS = {};
/** @type {Record<string, Glossary>} by code */
const GLOSSARIES = {};

/**
 * Add the words of a language, which the server collects from all rooms (app/page/words.py).
 * @param {string} code
 * @param {{texts: Record<string, string>, glossary: Record<string, Glossary>}} words
 */
export function addWords(code, { texts, glossary }) {
  TEXTS[code] = texts;
  Object.assign(GLOSSARIES, glossary);
}

/** Add words of a language that are loaded later. @param {string} code @param {Record<string, string>} texts */
export function addMoreWords(code, texts) {
  TEXTS[code] = { ...TEXTS[code], ...texts };
}

/** Return whether the words of a language are loaded. @param {string} code */
export const hasWords = (code) => code in TEXTS;

/** Return whether the page's language has a text for `key`. @param {string} key */
export const hasText = (key) => Object.hasOwn(TEXTS[language.value], key);

/**
 * Return the text of `key` in the page's language with `values` filled in, and `missing` for absent values.
 * @param {string} key
 * @param {Values} [values]
 * @param {string | null} [missing]
 */
export function t(key, values = {}, missing = null) {
  const texts = TEXTS[language.value] ?? {};
  return fill((onGpu.value ? texts[`${key}.gpu`] : undefined) ?? texts[key] ?? key, values, language.value, missing);
}

/**
 * Return a multilingual value in the page's language, or in English.
 * @template T
 * @param {Record<string, T> | {en: T, zh: T}} texts by language
 */
export const inLanguage = (texts) => /** @type {Record<string, T>} */ (texts)[language.value] ?? texts.en;

/** Join sentences; with a space in English. @param {string[]} list */
export const sentences = (list) => list.join(t("join.sentences"));

const CATEGORIES = ["zero", "one", "two", "few", "many", "other"];
/** @type {Map<string, {rules: Intl.PluralRules, categories: string[]}>} code -> its rules and plural categories */
const plurals = new Map();

/**
 * Return the plural form for a number. `forms` are in CLDR order, as many as the language has (en: one, other).
 * @param {string} code
 * @param {number} number
 * @param {string[]} forms
 */
function pluralForm(code, number, forms) {
  let known = plurals.get(code);
  if (!known) {
    const rules = new Intl.PluralRules(code);
    const available = /** @type {string[]} */ (rules.resolvedOptions().pluralCategories);
    plurals.set(code, (known = { rules, categories: CATEGORIES.filter((one) => available.includes(one)) }));
  }
  return forms[Math.min(known.categories.indexOf(known.rules.select(number)), forms.length - 1)];
}

/**
 * Replace the names in braces in `text` by `values`; a name without a value is kept, or replaced by `missing`.
 * @param {string} text
 * @param {Values} values
 * @param {string} [code]
 * @param {string | null} [missing]
 */
export function fill(text, values, code = language.value, missing = null) {
  return text
    .replace(/\{(\w+)\|([^}]*)\}/g, (_, name, forms) => pluralForm(code, Number(values[name]), forms.split("|")))
    .replace(/\{(\w+)\}( ?)/g, (match, name, space) => {
      const shown = name in values ? String(values[name]) : (missing ?? match.trimEnd());
      return shown.endsWith("）") ? shown : shown + space; // no space follows a full-width parenthesis
    });
}

/**
 * Return the language of `text` for its `lang` attribute, by its script; undefined if it has no letters.
 * @param {string} text
 */
export function langOf(text) {
  if (/[\u3040-\u30ff]/.test(text)) return "ja";
  if (/\p{Script=Han}/u.test(text)) return "zh-CN";
  return /[a-z]/i.test(text) ? "en" : undefined;
}

const THIN = "\u2009";
const digits = new Intl.NumberFormat("en", { maximumFractionDigits: 20 });

/** Format decimal digits in groups of three with thin spaces. @param {number | string} value */
export function grouped(value) {
  const number = Number(value);
  if (!Number.isFinite(number)) return String(value);
  const parts = digits.formatToParts(number);
  return parts.map((part) => (part.type === "group" ? THIN : part.value)).join("");
}

/** Format bytes as B, KiB, MiB or GiB with at most two decimals. @param {number} bytes */
export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${Number(value.toFixed(unit === 0 ? 0 : value < 10 ? 2 : 1))}${THIN}${units[unit]}`;
}

/** Format seconds as ms or s. @param {number | null | undefined} seconds */
export function secondsText(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))}${THIN}ms`;
  return `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(1)}${THIN}s`;
}

/** Format a number of parameters: 10.4 M. @param {number} count */
export function countText(count) {
  if (count >= 1e9) return `${Number((count / 1e9).toPrecision(3))}${THIN}B`;
  if (count >= 1e6) return `${Number((count / 1e6).toPrecision(3))}${THIN}M`;
  return grouped(count);
}

/** Format operations per byte with three digits. @param {number} value */
export const intensityText = (value) => grouped(value.toPrecision(3));

/**
 * Format a probability with `digits` decimals: by default two, or four below 0.01. One that would round to zero is
 * shown as less than the last decimal.
 * @param {number} p
 * @param {number} [digits]
 */
export function probabilityText(p, digits = p < 0.01 ? 4 : 2) {
  const smallest = 10 ** -digits;
  return p > 0 && p < smallest / 2 ? `<${smallest.toFixed(digits)}` : p === 0 ? "0" : p.toFixed(digits);
}

/** Format a share of one as a percentage. @param {number} share */
export const percentText = (share) => `${(100 * share).toFixed(1)}${THIN}%`;

// ── Glossary: terms with definitions in every language, for terms, tooltips and the help ─────────────────────────────

/** @typedef {{id: string, group: string, own: Term, other: Term, otherLanguage: typeof LANGUAGES[0]}} FoundTerm */

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
 * Return the second language of terms, as readers often know a term in another one: English for all others, Chinese for
 * English.
 * @returns {typeof LANGUAGES[0]}
 */
const otherLanguage = () => LANGUAGES.find((one) => (one.code === "en") !== (language.value === "en")) ?? LANGUAGES[0];

/**
 * Return the terms whose name or definition, in either language, contains every word of `query`.
 * @param {string} query
 */
export function findTerms(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const ids = Object.values(GLOSSARIES[language.value]).flatMap((entries) => Object.keys(entries));
  return ids
    .flatMap((id) => termOf(id) ?? [])
    .filter(({ id, own, other }) => {
      const text = [id, ...own, ...other].join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    });
}
