// Types of settings, which determine how values are read from and written into links.

import { fits } from "./options.js";

/**
 * Type of a setting: `parse` reads a value from a link (undefined: invalid), `write` writes a parsed value into one.
 *
 * @typedef {{
 *   parse: (text: string) => unknown, write: (value: any) => string, choices?: readonly string[]
 * }} SettingType
 */

/** @type {SettingType} */
export const integer = { parse: (text) => (/^-?\d+$/.test(text) ? Number(text) : undefined), write: String };
/** @type {SettingType} */
export const number = {
  parse: (text) => (text !== "" && Number.isFinite(Number(text)) ? Number(text) : undefined),
  write: String,
};
/** @type {SettingType} */
export const text = { parse: (value) => value || undefined, write: String };
/** @type {SettingType} */
export const order = { parse: (value) => (/^-?[a-z_]+$/.test(value) ? value : undefined), write: String };
/** @type {SettingType} */
export const word = { parse: (value) => (/^[a-z_]+$/.test(value) ? value : undefined), write: String };
/** @type {SettingType} */
export const modelId = { parse: (id) => (/^[a-z0-9.-]+$/.test(id) ? id : undefined), write: String };
/** @type {SettingType} */
export const flag = {
  parse: (text) => (text === "1" || text === "0" ? text === "1" : undefined),
  write: (value) => (value ? "1" : "0"),
};

/** @type {(...choices: string[]) => SettingType} */
export const oneOf = (...choices) => ({
  parse: (value) => (choices.includes(value) ? value : undefined),
  write: String,
  choices,
});

/** Return a choice written as `spellings` in links. @type {(spellings: Record<string, string>) => SettingType} */
export const spelled = (spellings) => ({
  parse: (text) => Object.keys(spellings).find((value) => spellings[value] === text),
  write: (value) => spellings[value],
  choices: Object.keys(spellings),
});

/**
 * Return a type of numbers within bounds or equal to `none`; others are invalid in a link.
 * @param {SettingType} type
 * @param {import("./options.js").Bounds} bounds
 * @param {unknown} [none]
 * @returns {SettingType}
 */
export const within = (type, bounds, none) => ({
  ...type,
  parse: (written) => {
    const n = type.parse(written);
    return n !== undefined && (n === none || fits(Number(n), bounds)) ? n : undefined;
  },
});
