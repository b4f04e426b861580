// Settings in a link to the benchmark page: its own table, plus language and theme, which all pages share.

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
  scenario: { type: name, initial: null, place: true }, // null = all headlines
  metric: { type: name, initial: null, place: true }, // null = first metric of the records
  against: { type: name, initial: null, place: true }, // baseline of the ratios; null = the first
  // ids of this server's records; null = the bundled one, or the latest
  records: { type: names, initial: null, place: true },
};

const text = () => signal(/** @type {string | null} */ (null));

/** All rows as signals, by name. */
export const link = {
  lang: settings.lang,
  theme: settings.theme,
  scenario: text(),
  metric: text(),
  against: text(),
  records: signal(/** @type {string[] | null} */ (null)),
};
