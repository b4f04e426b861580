// Words of the page in two languages: `t(key, {n: 3})`; `{n|key|keys}` in a text chooses by number.

import { settings } from "../model/settings.js";
import { en, zh } from "./texts.js";

const LANGUAGES = { en, zh };

/** The texts of a topic that a panel brings along when it is first opened: {en, zh}. */
export function addTexts(topic) {
  for (const lang of Object.keys(LANGUAGES)) Object.assign(LANGUAGES[lang], topic[lang]);
}

/** The text of `key` in the page's language, with `values` put in. */
export function t(key, values = {}) {
  return fill(LANGUAGES[settings.lang.value][key] ?? key, values);
}

/** The same in a language of choice. */
export function tIn(lang, key, values = {}) {
  return fill(LANGUAGES[lang][key] ?? key, values);
}

/** Whole sentences, one after the other: English puts a space between them. */
export const sentences = (list) => list.join(settings.lang.value === "zh" ? "" : " ");

export function fill(text, values) {
  return text
    .replace(/\{(\w+)\|([^|}]*)\|([^}]*)\}/g, (_, name, one, many) => (Number(values[name]) === 1 ? one : many))
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

export const probabilityText = (p) => (p >= 0.0995 ? p.toFixed(2) : p >= 0.00095 ? p.toFixed(3) : p > 0 ? p.toExponential(0) : "0");
