// Words of the options: label, help and values. They lie beside the table, in engine/options/words.

import { hasText, t } from "./words.js";

/** @param {string} name */
export const optionLabel = (name) => t(`option.${name}`);
/** @param {string} name */
export const optionHelp = (name) => t(`option.${name}.help`);

/**
 * What no value means.
 * @param {string} name
 */
export const noneText = (name) => t(`option.${name}.none`);

/**
 * A value of a choice.
 * @param {string} name @param {unknown} value
 */
export const valueText = (name, value) =>
  hasText(`option.${name}.${value}`) ? t(`option.${name}.${value}`) : String(value);

/**
 * What a value of a choice does, a sentence.
 * @param {string} name @param {unknown} value
 */
export const valueHelp = (name, value) => t(`option.${name}.${value}.help`);

/**
 * One of the usual numbers.
 * @param {string} name @param {number} n
 */
export const numberText = (name, n) =>
  hasText(`option.${name}.number`) ? t(`option.${name}.number`, { n }) : String(n);
