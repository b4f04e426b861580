// Texts of the options: label, help and values. They are stored in engine/options/words.

import { hasText, t } from "./words.js";

/** @param {string} name */
export const optionLabel = (name) => t(`option.${name}`);
/** @param {string} name */
export const optionHelp = (name) => t(`option.${name}.help`);

/** Return the meaning of an empty value. @param {string} name */
export const noneText = (name) => t(`option.${name}.none`);

/** Return the text of a value: a switch, a named choice, or as is. @param {string} name @param {unknown} value */
export const valueText = (name, value) =>
  typeof value === "boolean"
    ? t(value ? "value.on" : "value.off")
    : hasText(`option.${name}.${value}`)
      ? t(`option.${name}.${value}`)
      : String(value);

/** Return a setting with its value. @param {string} name @param {unknown} value */
export const settingText = (name, value) =>
  t(typeof value === "boolean" ? "setting.switch" : "setting", {
    name: optionLabel(name),
    value: valueText(name, value),
  });

/**
 * Return the components that `ablate` disables, in the header's form: LAYER.HEAD@RECORD or LAYER@RECORD, separated by
 * spaces.
 * @param {string | null | undefined} ablate
 */
export const offText = (ablate) =>
  ablate
    ? ablate
        .split(" ")
        .map((part) => {
          const [, layer, head, record] = part.match(/^(\d+)(?:\.(\d+))?@(\d+)$/) ?? [];
          if (!layer) return part;
          return t(head ? "off.head" : "off.layer", { layer, head, i: Number(record) + 1 });
        })
        .join(t("join.list"))
    : noneText("ablate");

/** Return a sentence on the effect of a choice's value. @param {string} name @param {unknown} value */
export const valueHelp = (name, value) => t(`option.${name}.${value}.help`);

/** Return the label of a preset number. @param {string} name @param {number} n */
export const numberText = (name, n) =>
  hasText(`option.${name}.number`) ? t(`option.${name}.number`, { n }) : String(n);
