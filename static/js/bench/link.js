// What a link to the benchmark page carries: a table of its own, beside language and theme, which all pages share.

import { signal } from "../../vendor/signals/signals.js";
import { TABLE as PAGE, settings } from "../state/settings.js";

/** @type {{parse: (text: string) => string | undefined, write: (value: string) => string}} */
const name = { parse: (text) => (/^[\w.-]{1,120}$/.test(text) ? text : undefined), write: String };
const names = {
  parse: (/** @type {string} */ text) => {
    const found = text.split(",").filter((part) => name.parse(part) !== undefined);
    return found.length ? found : undefined;
  },
  write: (/** @type {string[]} */ value) => value.join(","),
};

export const TABLE = {
  lang: PAGE.lang,
  theme: PAGE.theme,
  scenario: { type: name, initial: null, place: true }, // null = the headlines of all
  metric: { type: name, initial: null, place: true }, // null = the first that the records have
  against: { type: name, initial: null, place: true }, // baseline of the ratios; null = the first
  // ids of this server's records; null = the shipped one, or the latest
  records: { type: names, initial: null, place: true },
};

const text = () => signal(/** @type {string | null} */ (null));

/** Every row as a signal, by name. */
export const link = {
  lang: settings.lang,
  theme: settings.theme,
  scenario: text(),
  metric: text(),
  against: text(),
  records: signal(/** @type {string[] | null} */ (null)),
};
