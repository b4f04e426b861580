// Settings of a section: types of control values, and one signal per name.

import { signal } from "../../vendor/signals/signals.js";
import { tables } from "../state/options.js";
import { number, within } from "../state/setting_types.js";

/** @import {SettingType} from "../state/setting_types.js" */
/** @import {SettingTable} from "../state/settings.js" */

/**
 * Bounds of a number of a section, by its query parameter (`app/scale/bounds.py`).
 * @param {string} section
 * @param {string} param
 * @returns {import("../state/options.js").Bounds}
 */
export const boundsOf = (section, param) => tables.scale?.[section]?.[param] ?? {};

/**
 * Setting type of a number of a section; values out of bounds in a link are ignored.
 * @param {string} section
 * @param {string} param
 */
export const numberOf = (section, param) => within(number, boundsOf(section, param));

/** @type {SettingType} */
export const name = { parse: (text) => (/^[\w.-]{1,80}$/.test(text) ? text : undefined), write: String };

/** Whole numbers separated by commas. @type {SettingType} */
export const list = { parse: (text) => (/^\d{1,9}(,\d{1,9}){0,11}$/.test(text) ? text : undefined), write: String };

const MAX_PACKED = 3000; // characters in a link

/** JSON text in base64url, so that a link can contain it. @type {SettingType} */
export const packed = {
  parse: (text) => (/^[\w-]{2,3000}$/.test(text) ? unpack(text) : undefined),
  write: (/** @type {string} */ text) => pack(text),
};

/** Return JSON without whitespace if it is short enough for a link. @param {string} text @returns {string | null} */
export function shortened(text) {
  try {
    const short = JSON.stringify(JSON.parse(text));
    return pack(short).length <= MAX_PACKED ? short : null;
  } catch {
    return null; // the server reports the error
  }
}

/** @param {string} text */
function pack(text) {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {string} text */
function unpack(text) {
  try {
    const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes, (one) => one.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

/** @type {Map<string, import("../../vendor/signals/signals.js").Signal<any>>} */
const made = new Map();

/**
 * Return the signals of a table's rows, by name. Equal names share one signal.
 * @param {SettingTable} table
 * @param {string[]} [but] names to leave out
 */
export function inputs(table, but = []) {
  const names = Object.keys(table).filter((one) => !but.includes(one));
  for (const one of names) if (!made.has(one)) made.set(one, signal(table[one].initial));
  return Object.fromEntries(names.map((one) => [one, /** @type {any} */ (made.get(one))]));
}
