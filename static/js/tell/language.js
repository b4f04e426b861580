// The languages of the page. One more is a line here and a `words.<code>.json` in each room.

import { signal } from "../../vendor/signals/signals.js";

/** In the order in which the switch goes through them. `html`: the value of `lang` attributes; `short` and `label`: the
 * switch to it, for readers of it. `whole`: no room lacks a text in it; where one may, English is fetched too. */
export const LANGUAGES = [
  { code: "zh", html: "zh-CN", short: "中文", label: "中文：切换到中文", whole: true },
  { code: "en", html: "en", short: "EN", label: "EN: switch to English", whole: true },
];

/** The language that the page is written in now; its words are here (net/words.js loads them before they are shown). */
export const language = signal("en");

/** Whether the cache lies in a GPU's memory, which has a word of its own: texts `<key>.gpu` stand in for `<key>`. */
export const onGpu = signal(false);

/**
 * The entry of `code` in the list.
 * @param {string} code
 */
export const languageOf = (code) => LANGUAGES.find((one) => one.code === code);

/**
 * The language that follows `code` in the switch.
 * @param {string} code
 */
export const languageAfter = (code) =>
  LANGUAGES[(LANGUAGES.findIndex((one) => one.code === code) + 1) % LANGUAGES.length];
