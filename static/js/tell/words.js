// Words of the page in its language: `t(key, {n: 3})`; `{n|key|keys}` in a text chooses by number.

import { language, onGpu } from "./language.js";

/** @typedef {Record<string, any>} Values by their names in a text; of any type that has a text form */
/** @typedef {[term: string, definition: string]} Term */
/** @typedef {Record<string, Record<string, Term>>} Glossary group -> id -> term */

/** @type {Record<string, Record<string, string>>} code -> key -> text */
const TEXTS = {};
/** @type {Record<string, Glossary>} by code */
export const GLOSSARIES = {};

/**
 * Words of a language, as the server collects them from all rooms (app/page/words.py).
 * @param {string} code @param {{texts: Record<string, string>, glossary: Record<string, Glossary>}} words
 */
export function addWords(code, { texts, glossary }) {
  TEXTS[code] = texts;
  Object.assign(GLOSSARIES, glossary);
}

/**
 * More words of a language, that came with what they are about.
 * @param {string} code @param {Record<string, string>} texts
 */
export function addMoreWords(code, texts) {
  TEXTS[code] = { ...TEXTS[code], ...texts };
}

/** Whether the words of a language are here. @param {string} code */
export const hasWords = (code) => code in TEXTS;

/** Whether the page's language has a text for `key`. @param {string} key */
export const hasText = (key) => Object.hasOwn(TEXTS[language.value], key);

/**
 * The text of `key` in the page's language, with `values` put in, and `missing` for those that are not there.
 * @param {string} key @param {Values} [values] @param {string | null} [missing]
 */
export function t(key, values = {}, missing = null) {
  const texts = TEXTS[language.value] ?? {};
  return fill((onGpu.value ? texts[`${key}.gpu`] : undefined) ?? texts[key] ?? key, values, language.value, missing);
}

/**
 * The same in a language of choice, one whose words are here.
 * @param {string} code @param {string} key @param {Values} [values]
 */
export function tIn(code, key, values = {}) {
  return fill(TEXTS[code]?.[key] ?? key, values, code);
}

/**
 * What there is in the page's language of something that the server has in several; in English where it has none.
 * @template T
 * @param {Record<string, T> | {en: T, zh: T}} texts by language
 */
export const inLanguage = (texts) => /** @type {Record<string, T>} */ (texts)[language.value] ?? texts.en;

/** Whole sentences, one after the other: English puts a space between them. @param {string[]} list */
export const sentences = (list) => list.join(t("join.sentences"));

const CATEGORIES = ["zero", "one", "two", "few", "many", "other"];
/**
 * @type {Map<string, {rules: Intl.PluralRules, categories: string[]}>} code -> its rules, the categories that it has
 */
const plurals = new Map();

/**
 * Which of `forms` goes with a number: they stand in CLDR's order, as many as the language has (en: one, other).
 * @param {string} code @param {number} number @param {string[]} forms
 */
function pluralForm(code, number, forms) {
  let known = plurals.get(code);
  if (!known) {
    const rules = new Intl.PluralRules(code);
    const has = /** @type {string[]} */ (rules.resolvedOptions().pluralCategories);
    plurals.set(code, (known = { rules, categories: CATEGORIES.filter((one) => has.includes(one)) }));
  }
  return forms[Math.min(known.categories.indexOf(known.rules.select(number)), forms.length - 1)];
}

/**
 * `text` with `values` in place of their names in braces; a name without a value stays, or becomes `missing`.
 * @param {string} text @param {Values} values @param {string} [code] @param {string | null} [missing]
 */
export function fill(text, values, code = language.value, missing = null) {
  return text
    .replace(/\{(\w+)\|([^}]*)\}/g, (_, name, forms) => pluralForm(code, Number(values[name]), forms.split("|")))
    .replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : (missing ?? whole)));
}

/**
 * The language that `text` is written in, for its `lang`: decided by its script; undefined when it has no letters.
 * @param {string} text
 */
export function langOf(text) {
  if (/[\u3040-\u30ff]/.test(text)) return "ja";
  if (/\p{Script=Han}/u.test(text)) return "zh-CN";
  return /[a-z]/i.test(text) ? "en" : undefined;
}

const THIN = "\u2009";
const digits = new Intl.NumberFormat("en", { maximumFractionDigits: 20 });

/** Decimal digits in groups of three with thin spaces. @param {number | string} value */
export function grouped(value) {
  const number = Number(value);
  if (!Number.isFinite(number)) return String(value);
  const parts = digits.formatToParts(number);
  return parts.map((part) => (part.type === "group" ? THIN : part.value)).join("");
}

/** Bytes as B, KiB, MiB, GiB with at most two decimals. @param {number} bytes */
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

/** Seconds as ms or s. @param {number | null | undefined} seconds */
export function secondsText(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))}${THIN}ms`;
  return `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(1)}${THIN}s`;
}

/** A number of parameters: 10.4 M. @param {number} count */
export function countText(count) {
  if (count >= 1e9) return `${Number((count / 1e9).toPrecision(3))}${THIN}B`;
  if (count >= 1e6) return `${Number((count / 1e6).toPrecision(3))}${THIN}M`;
  return grouped(count);
}

/** Operations a byte, to three digits. @param {number} value */
export const intensityText = (value) => grouped(value.toPrecision(3));

/** @param {number} p */
export const probabilityText = (p) =>
  p >= 0.0995 ? p.toFixed(2) : p >= 0.00095 ? p.toFixed(3) : p > 0 ? p.toExponential(0) : "0";

/** A share of one, in percent. @param {number} share */
export const percentText = (share) => `${(100 * share).toFixed(1)}${THIN}%`;
