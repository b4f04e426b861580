// Texts of the softmax: its formula with this model's numbers, causes of differences, and number formats.

import { kvShapeOf } from "../../core/shape.js";
import { probabilityText, t } from "../../i18n/words.js";

/** @import {View} from "../../state/store.js" */
/** @import {Terms} from "./softmax.js" */

/** Column title of the score, and its formula with this model's numbers. @param {View} now @param {Terms} terms */
export function scoreFormula(now, { scaling, softcap }) {
  const d = kvShapeOf(now.log.header.model, now.layer).head_dim;
  const usual = Math.abs(scaling * Math.sqrt(d) - 1) < 1e-6;
  const product = usual
    ? t("softmax.score_usual", { d, scaling: plain(scaling) })
    : t("softmax.score_scaled", { scaling: Number(scaling.toPrecision(6)) });
  return {
    name: usual ? "q·k/√d" : "q·k·s",
    formula: softcap === null ? product : `${product}; ${t("softmax.softcap", { c: softcap })}`,
  };
}

/** Explain why the page's numbers may differ from the engine's. @param {View} now */
export function deltaWhy(now) {
  const dtype = now.log.capture(now.index)?.dtype ?? now.log.header.model.dtype;
  const stored = now.log.header.engine.kv_cache_dtype;
  const lines = [t("softmax.why", { dtype, model: now.log.header.model.dtype })];
  if (stored && stored !== "auto" && stored !== now.log.header.model.dtype)
    lines.push(t("softmax.why_stored", { dtype: stored }));
  return lines.join(" ");
}

/** @param {number} value */
export const plain = (value) =>
  (Math.abs(value) >= 1000
    ? value.toExponential(2)
    : Math.abs(value) >= 100
      ? value.toFixed(1)
      : value.toFixed(3)
  ).replace("-", "−");

/** Format a share of the table, all with four decimals. @param {number} value */
export const share = (value) => probabilityText(value, 4);
