// Result of the comparison with a run without a cache: the shown layer in numbers, all layers as bars, and a summary.

import { canFetch, comparePosition, nothingCompared, rowSources } from "../../core/attention.js";
import { labelText } from "../../core/labels.js";
import { firstDifferent, largestOf } from "../../core/layer_differences.js";
import { sequenceViewAt } from "../../core/sequence_view.js";
import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { difference, LayerBars } from "../../kit/layer_bars.js";
import { tips } from "../../kit/tooltip.js";
import { requestLayer } from "../../net/commands.js";
import { settings } from "../../state/settings.js";
import { hovered, select, sequenceView } from "../../state/store.js";

/** @import {LayerCapture} from "../../core/trace.js" */
/** @import {ComparedLayer, Comparison} from "./proof.js" */
/** @import {View} from "../../state/store.js" */

/**
 * Numbers and bars. `one` has the results for the shown layer.
 * @param {{found: Comparison, one: ComparedLayer | null}} props
 */
export function Result({ found, one }) {
  const layer = sequenceView.value?.layer ?? 0;
  const bars = html`<${LayerBars} layers=${found.layers} chosen=${layer} label=${t("proof.layers")}
    choose=${(/** @type {number} */ chosen) => (settings.layer.value = chosen)} />`;
  if (!one?.weights.count) return html`<p class="proof-why">${t("proof.nothing")}</p>${bars}`;
  const scope = [
    t("proof.count", { n: grouped(one.weights.count) }),
    t("proof.scope", { rows: one.rows, heads: found.heads.length }),
  ].join(", ");
  return html`<p class="proof-head">${t("proof.largest", { layer })} <${Fidelity} kind="derived"
    formula=${`${t("proof.formula", { dtype: dtypeOf(found.log) })}: ${scope}`} /></p>
    <dl class="proof-list num">
      <dt>${t("proof.weights")}</dt>
      <dd><${Worst} one=${one} /></dd>
      ${Object.entries({ K: one.k, V: one.v }).map(([name, { count, max }]) =>
        count
          ? html`<dt class=${name.toLowerCase()}>${name}</dt><dd class=${name.toLowerCase()}
            ...${tips([t("proof.of", { n: grouped(count) })])}>${difference(max)}</dd>`
          : null,
      )}
    </dl>
    <p class="visually-hidden proof-scope">${scope}</p>
    ${bars}`;
}

/** Summary of all layers: the first differing layer, or the largest difference. @param {{found: Comparison}} props */
export function Verdict({ found: { layers } }) {
  const [first, largestByKind] = [firstDifferent(layers), largestOf(layers)];
  const [weights, k, v] = [largestByKind.weights, largestByKind.k, largestByKind.v].map(({ max }) => difference(max));
  const why = t("proof.same.why", { n: layers.length, weights, k, v });
  const largest = difference(Math.max(largestByKind.weights.max, largestByKind.k.max, largestByKind.v.max));
  const text = first
    ? t(`proof.differs.${first.kind}`, { layer: first.layer, max: difference(first.max) })
    : t("proof.same", { n: layers.length, max: largest });
  return html`<span id="proof-verdict" class=${first ? "fault" : null} ...${tips([text, first ? "" : why])}>${text}
    <${Fidelity} kind="derived" formula=${first ? t("proof.differs.why") : why} /></span>`;
}

/** The largest difference of the weights, as a button that selects its cell. @param {{one: ComparedLayer}} props */
function Worst({ one }) {
  const { worst, max } = one.weights;
  const labels = sequenceView.value?.labels;
  if (!worst || !labels) return difference(max);
  /** @param {number} p */
  const at = (p) => t("matrix.token", { token: labelText(labels[p]), position: p });
  const lines = [
    t("proof.worst", { layer: one.layer, head: worst.head, query: at(worst.query), key: at(worst.key) }),
    t("proof.pair", { kept: eightDigits(worst.recorded), again: eightDigits(worst.recomputed) }),
  ];
  const go = () => {
    settings.head.value = worst.head;
    hovered.value = null;
    select({ query: worst.query, position: worst.key });
  };
  return html`<button class="proof-worst" aria-label=${`${difference(max)}: ${lines.join("; ")}`} onClick=${go}
    ...${tips(lines)}>${difference(max)}</button>`;
}

/** @param {import("../../core/log.js").TraceLog} log */
const dtypeOf = (log) => {
  for (let i = log.length - 1; i >= 0; i--) {
    const capture = log.records[i].has_capture ? log.capture(i) : null;
    if (capture) return capture.dtype;
  }
  return log.header.model.dtype;
};

/** @param {number} value */
const eightDigits = (value) => Number(value.toPrecision(8));

const SLICE_MS = 12; // time slice before yielding to the page

/**
 * @param {View} now
 * @param {LayerCapture} recomputed the layer with all tokens
 * @param {number[]} heads
 * @returns {Promise<ComparedLayer>}
 */
export async function compare(now, recomputed, heads) {
  const { layer } = recomputed;
  const found = { layer, weights: nothingCompared(), k: nothingCompared(), v: nothingCompared(), rows: 0 };
  const view = sequenceViewAt(now.log, now.index, now.seq.seq_id, layer, now.head);
  const sources = view ? rowSources(view) : [];
  await Promise.all(
    sources.map((source) => (source && canFetch(now.log, source, layer) ? requestLayer(source.record, layer) : null)),
  );
  let sliceStart = performance.now();
  for (const [position, source] of sources.entries()) {
    if (source && comparePosition(found, now.log, source, position, recomputed, heads)) found.rows += 1;
    if (performance.now() - sliceStart < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    sliceStart = performance.now();
  }
  return /** @type {ComparedLayer} */ (found);
}
