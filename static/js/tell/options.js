// Words of the options: label, help and values. They lie beside the table, in engine/options/words.

import { hasText, t } from "./words.js";

export const optionLabel = (name) => t(`option.${name}`);
export const optionHelp = (name) => t(`option.${name}.help`);

/** What no value means. */
export const noneText = (name) => t(`option.${name}.none`);

/** A value of a choice. */
export const valueText = (name, value) =>
  hasText(`option.${name}.${value}`) ? t(`option.${name}.${value}`) : String(value);

/** What a value of a choice does, a sentence. */
export const valueHelp = (name, value) => t(`option.${name}.${value}.help`);

/** One of the usual numbers. */
export const numberText = (name, n) =>
  hasText(`option.${name}.number`) ? t(`option.${name}.number`, { n }) : String(n);
