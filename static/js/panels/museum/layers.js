// Differences of the two runs per layer, and the first layer that differs.

import { compareInto, nothingCompared, vectorAt } from "../../core/attention.js";
import { firstDifferent } from "../../core/layer_differences.js";
import { kvHeadsOf } from "../../core/shape.js";
import { t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { difference, LayerBars } from "../../kit/layer_bars.js";
import { recordAt } from "../../runs/steps.js";
import { attentionRows, keySources } from "./arrays.js";

/** @import {LayerDifference} from "../../core/layer_differences.js" */
/** @import {TraceLog} from "../../core/log.js" */

/**
 * Return the length of the common token prefix; differences after it follow from different tokens.
 * @param {TraceLog[]} logs @param {number} step @param {number} seqId
 */
function commonPrefix(logs, step, seqId) {
  const [a, b] = logs.map((log) => {
    const index = recordAt(log, step);
    return index < 0 ? [] : (log.stateAt(index).sequences.get(seqId)?.token_ids ?? []);
  });
  const differs = a.findIndex((token, i) => token !== b[i]);
  return differs < 0 ? Math.min(a.length, b.length) : differs;
}

/**
 * Return the differences of `seqId` after `step` steps per layer, over the common token prefix: of K and V in its
 * blocks, and of its attention rows.
 * @param {TraceLog[]} logs @param {number} step @param {number} seqId
 * @returns {LayerDifference[]}
 */
export function layerDifferences(logs, step, seqId) {
  const count = commonPrefix(logs, step, seqId);
  const sources = logs.map((log) => keySources(log, step, seqId).slice(0, count));
  const { model } = logs[0].header;
  const { num_layers, num_heads } = model;
  return Array.from({ length: num_layers }, (_, layer) => {
    const found = { layer, k: nothingCompared(), v: nothingCompared(), weights: nothingCompared() };
    for (const kind of /** @type {const} */ (["k", "v"]))
      for (let position = 0; position < Math.min(...sources.map((one) => one.length)); position++)
        for (const head of kvHeadsOf(model, layer)) {
          const [a, b] = logs.map((log, i) => vectorAt(log, sources[i][position], layer, kind, head));
          if (a && b) compareInto(found[kind], a, b, () => ({ position, head }));
        }
    for (let head = 0; head < num_heads; head++) {
      const [a, b] = logs.map((log) => attentionRows(log, step, seqId, layer, head));
      for (let query = 0; query < Math.min(a.length, b.length, count); query++) {
        const [one, other] = [a[query], b[query]];
        if (!one || !other || one.keyStart !== other.keyStart) continue;
        const keys = Math.min(one.weights.length, other.weights.length);
        compareInto(found.weights, one.weights.subarray(0, keys), other.weights, () => ({ head, query }));
      }
    }
    return found;
  });
}

/** @param {{layers: LayerDifference[]}} props */
export function Layers({ layers }) {
  const first = firstDifferent(layers);
  const compared = layers.some(({ k, v, weights }) => k.count || v.count || weights.count);
  if (!compared) return null;
  const text = first
    ? t(`museum.layers.${first.kind}`, { layer: first.layer, max: difference(first.max) })
    : t("museum.layers.same");
  return html`<div class="museum-layers">
    <${LayerBars} layers=${layers} chosen=${first?.layer ?? null} label=${t("museum.layers")} />
    <p class="hint" id="museum-layers-first">${text} <${Fidelity} kind="derived"
      formula=${t("museum.layers.formula")} /></p>
  </div>`;
}
