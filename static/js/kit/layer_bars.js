// Thumbnails of the differences between two runs' K, V and attention weights, one per layer, as bars by order of
// magnitude. A click selects the layer.

import { heightOf, KINDS, SAME } from "../core/layer_differences.js";
import { t } from "../i18n/words.js";
import { moveFocusInRow } from "./focus.js";
import { html } from "./html.js";
import { tips } from "./tooltip.js";

/** @import {LayerDifference} from "../core/layer_differences.js" */

const MAX_NUMBERED = 12; // number of layers up to which each is labelled

/** Format a difference: "0" if it is exactly 0, else with two digits. @param {number} value */
export function difference(value) {
  if (value === 0 || value === Infinity) return value ? "∞" : "0";
  return value >= 0.01 && value < 1000
    ? String(Number(value.toPrecision(2)))
    : value.toExponential(1).replace("-", "−");
}

/** Describe one layer's differences in words, leaving out kinds without comparisons. @param {LayerDifference} one */
const layerWords = (one) =>
  KINDS.filter((kind) => one[kind].count)
    .map((kind) => t(`layers.${kind}`, { max: difference(one[kind].max) }))
    .join(" · ");

/**
 * `choose` is called with the clicked layer; null: layers are not selectable.
 * @param {{
 *   layers: LayerDifference[], chosen: number | null, label: string, choose?: ((layer: number) => void) | null,
 * }} props
 */
export function LayerBars({ layers, chosen, label, choose = null }) {
  return html`<div class="layer-bars" data-many=${layers.length > MAX_NUMBERED} role="group" aria-label=${label}>
    ${layers.map((one) => {
      const description = t("layers.one", { layer: one.layer, text: layerWords(one) });
      return html`<button key=${one.layer} class="layer-bar" data-layer=${one.layer} disabled=${!choose}
        aria-pressed=${one.layer === chosen} aria-label=${description} ...${tips([description])}
        tabindex=${one.layer === (chosen ?? layers[0].layer) ? 0 : -1}
        data-arrows onKeyDown=${moveFocusInRow}
        onClick=${() => choose?.(one.layer)}
        ><span class="layer-bar-room" aria-hidden="true">${KINDS.map(
          (kind) => html`<i class=${kind} data-differs=${one[kind].max > SAME}
            style=${{ height: `${100 * heightOf(one[kind].max)}%` }}></i>`,
        )}</span><span class="num" aria-hidden="true">${one.layer}</span></button>`;
    })}
  </div>`;
}
