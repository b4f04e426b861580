// Words of the page in its language: `t(key, {n: 3})`; `{n|key|keys}` in a text chooses by number.

import { language } from "./language.js";

/** code -> key -> text */
const TEXTS = {};
/** code -> group -> id -> [term, definition] */
export const GLOSSARIES = {};

/** Words of a language, as the server collects them from all rooms (app/words.py). */
export function addWords(code, { texts, glossary }) {
  TEXTS[code] = texts;
  Object.assign(GLOSSARIES, glossary);
}

/** Whether the words of a language are here. */
export const hasWords = (code) => code in TEXTS;

/** Whether the page's language has a text for `key`. */
export const hasText = (key) => Object.hasOwn(TEXTS[language.value], key);

/** The text of `key` in the page's language, with `values` put in. */
export function t(key, values = {}) {
  return tIn(language.value, key, values);
}

/** The same in a language of choice, one whose words are here. */
export function tIn(code, key, values = {}) {
  return fill(TEXTS[code]?.[key] ?? key, values, code);
}

/** The text in the page's language out of one that the server words itself, {en, zh}; English where it has none. */
export const inLanguage = (text) => text[language.value] ?? text.en;

/** Whole sentences, one after the other: English puts a space between them. */
export const sentences = (list) => list.join(t("join.sentences"));

const CATEGORIES = ["zero", "one", "two", "few", "many", "other"];
const plurals = new Map(); // code -> {rules, categories that the language has}

/** Which of `forms` goes with a number: they stand in CLDR's order, as many as the language has (en: one, other). */
function pluralForm(code, number, forms) {
  if (!plurals.has(code)) {
    const rules = new Intl.PluralRules(code);
    const has = rules.resolvedOptions().pluralCategories;
    plurals.set(code, { rules, categories: CATEGORIES.filter((one) => has.includes(one)) });
  }
  const { rules, categories } = plurals.get(code);
  return forms[Math.min(categories.indexOf(rules.select(number)), forms.length - 1)];
}

/** `text` with `values` in place of their names in braces. */
export function fill(text, values, code = language.value) {
  return text
    .replace(/\{(\w+)\|([^}]*)\}/g, (_, name, forms) => pluralForm(code, Number(values[name]), forms.split("|")))
    .replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** The language that `text` is written in, for its `lang`: decided by its script; undefined when it has no letters. */
export function langOf(text) {
  if (/[\u3040-\u30ff]/.test(text)) return "ja";
  if (/\p{Script=Han}/u.test(text)) return "zh-CN";
  return /[a-z]/i.test(text) ? "en" : undefined;
}

/** Decimal digits in groups of three with thin spaces. */
export function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** Bytes as B, KiB, MiB, GiB with at most two decimals. */
export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${Number(value.toFixed(unit === 0 ? 0 : value < 10 ? 2 : 1))}\u2009${units[unit]}`;
}

/** Seconds as ms or s. */
export function secondsText(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))}\u2009ms`;
  return `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(1)}\u2009s`;
}

/** A number of parameters: 10.4 M. */
export function countText(count) {
  if (count >= 1e9) return `${Number((count / 1e9).toPrecision(3))}\u2009B`;
  if (count >= 1e6) return `${Number((count / 1e6).toPrecision(3))}\u2009M`;
  return grouped(count);
}

export const probabilityText = (p) =>
  p >= 0.0995 ? p.toFixed(2) : p >= 0.00095 ? p.toFixed(3) : p > 0 ? p.toExponential(0) : "0";
