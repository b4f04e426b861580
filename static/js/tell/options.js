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
 * A value, of a choice or a switch too.
 * @param {string} name @param {unknown} value
 */
export const valueText = (name, value) =>
  typeof value === "boolean"
    ? t(value ? "value.on" : "value.off")
    : hasText(`option.${name}.${value}`)
      ? t(`option.${name}.${value}`)
      : String(value);

/**
 * A setting with its value.
 * @param {string} name @param {unknown} value
 */
export const settingText = (name, value) =>
  t(typeof value === "boolean" ? "setting.switch" : "setting", {
    name: optionLabel(name),
    value: valueText(name, value),
  });

/**
 * What `ablate` switches off, as the log's header has it: LAYER.HEAD@RECORD or LAYER@RECORD, with spaces between.
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
