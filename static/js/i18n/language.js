// Languages of the page. To add one, add a line here and a `words.<code>.json` in each room.

import { signal } from "../../vendor/signals/signals.js";

/**
 * Languages in the order of the switch. `html`: value of `lang` attributes; `short` and `label`: text of the switch to
 * it, in that language. `isComplete`: no text is missing; otherwise English texts are fetched as a fallback.
 */
export const LANGUAGES = [
  { code: "zh", html: "zh-CN", short: "中文", label: "中文：切换到中文", isComplete: true },
  { code: "en", html: "en", short: "EN", label: "EN: switch to English", isComplete: true },
];

/** Current language of the page; its words are loaded before it is set (net/words.js). */
export const language = signal("en");

/** @typedef {{message: string, said?: Record<string, string>}} Refusal `said`: message by language */

/** Return the server's sentence in the page's language, or in English. @param {Refusal} refusal */
export const refusalText = ({ message, said = {} }) => said[language.value] ?? message;

/** Whether the cache is in GPU memory: texts `<key>.gpu` then replace `<key>`. */
export const onGpu = signal(false);

/** Return the entry of `code` in the list. @param {string} code */
export const languageOf = (code) => LANGUAGES.find((one) => one.code === code);

/** Return the language after `code` in the switch. @param {string} code */
export const languageAfter = (code) =>
  LANGUAGES[(LANGUAGES.findIndex((one) => one.code === code) + 1) % LANGUAGES.length];
