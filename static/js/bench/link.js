// What a link to the benchmark page carries: a table of its own, beside language and theme, which all pages share.

import { signal } from "../../vendor/signals/signals.js";
import { TABLE as PAGE, settings } from "../state/settings.js";

const name = { parse: (text) => (/^[\w.-]{1,120}$/.test(text) ? text : undefined), write: String };
const names = {
  parse: (text) => {
    const found = text.split(",").filter((part) => name.parse(part) !== undefined);
    return found.length ? found : undefined;
  },
  write: (value) => value.join(","),
};

export const TABLE = {
  lang: PAGE.lang,
  theme: PAGE.theme,
  scenario: { type: name, initial: null, place: true }, // null = the headlines of all
  metric: { type: name, initial: null, place: true }, // null = the first that the records have
  against: { type: name, initial: null, place: true }, // baseline of the ratios; null = the first
  records: { type: names, initial: null, place: true }, // ids of this server's records; null = the shipped one, or the latest
};

/** Every row as a signal, by name. */
export const link = Object.fromEntries(
  Object.entries(TABLE).map(([key, row]) => [
    key,
    settings[key] && PAGE[key] === row ? settings[key] : signal(row.initial),
  ]),
);
