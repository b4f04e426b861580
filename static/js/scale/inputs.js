// Settings of a section: types of what its controls may hold, and one signal for each name.

import { signal } from "../../vendor/signals/signals.js";

/** @typedef {import("../state/settings.js").SettingType} SettingType */
/** @typedef {import("../state/settings.js").SettingTable} SettingTable */

/** @type {SettingType} */
export const number = {
  parse: (text) => (text !== "" && Number.isFinite(Number(text)) ? Number(text) : undefined),
  write: String,
};

/** @type {SettingType} */
export const name = { parse: (text) => (/^[\w.-]{1,80}$/.test(text) ? text : undefined), write: String };

/** @type {Map<string, import("../../vendor/signals/signals.js").Signal<any>>} */
const made = new Map();

/**
 * The signals of a table's rows, by name. The same name is the same signal wherever it is asked for.
 *
 * @param {SettingTable} table
 * @param {string[]} [but] names that are left out
 */
export function inputs(table, but = []) {
  const names = Object.keys(table).filter((one) => !but.includes(one));
  for (const one of names) if (!made.has(one)) made.set(one, signal(table[one].initial));
  return Object.fromEntries(names.map((one) => [one, /** @type {any} */ (made.get(one))]));
}
