// Attention output of the current or pinned query: each value times its weight, summed and compared with the engine's
// own vector.

import { computed } from "../../../vendor/signals/signals.js";
import { outputOf, queryAt } from "../../core/attention_output.js";
import { labelText } from "../../core/labels.js";
import { originOf } from "../../core/sequence_view.js";
import { language } from "../../i18n/language.js";
import { grouped, t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { difference } from "../../kit/layer_bars.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { requestLayer } from "../../net/commands.js";
import { phase } from "../../state/stage_playhead.js";
import { captureVersion, hovered, selected, sequenceView } from "../../state/store.js";
import { layoutOf, nameOf, paintOutput, partOf } from "./output_paint.js";
import { plain } from "./softmax_words.js";

/** @import {AttentionOutput} from "../../core/attention_output.js" */
/** @import {View} from "../../state/store.js" */

/**
 * `view` is the record that computed the output, and `query` the position there; `place` is the position in the
 * sequence on stage.
 * @typedef {{output: AttentionOutput, view: View, query: number, place: number, progress: () => number}} Shown
 */

const attended = computed(() => phase("attend") > 0);
const complete = () => 1;

/**
 * The output of the query, or a message if there is none.
 * @type {import("../../../vendor/signals/signals.js").ReadonlySignal<{problem?: string, found?: Shown}>}
 */
const shown = computed(() => {
  captureVersion.value;
  const now = sequenceView.value;
  const target = selected.value;
  const pinnedQuery = target && (target.seq ?? now?.seq.seq_id) === now?.seq.seq_id ? target.query : null;
  const isPinned =
    now !== null &&
    pinnedQuery !== undefined &&
    pinnedQuery !== null &&
    pinnedQuery !== now.query &&
    pinnedQuery < now.numFilled;
  const place = isPinned ? pinnedQuery : now?.entry && attended.value ? now.query : null;
  if (!now || place === null) return { problem: t("output.empty") };
  const source = queryAt(now, place);
  const found = source && outputOf(source.view, source.query);
  if (source && !found) requestLayer(source.view.index, now.layer);
  if (!source || !found) return { problem: t("output.missing") };
  const progress = isPinned ? complete : () => phase("attend");
  if (found.output) return { found: { ...source, place, output: found.output, progress } };
  for (const position of found.missing) {
    const origin = originOf(source.view, position);
    if (origin) requestLayer(origin.record, now.layer);
  }
  return { problem: t("output.values_missing", { n: grouped(found.missing.length) }) };
});

/** @param {{choice?: import("../../kit/html.js").Children}} props */
export function Output({ choice = null }) {
  const { problem, found } = shown.value;
  return html`<section class="panel softmax output" id="attention-output" data-largest=${found?.output.largest ?? ""}>
    <h3 class="panel-title">
      ${choice ?? t("output.title")}
      ${
        found
          ? html`<span class="softmax-query">${t("output.of", {
              token: labelText(found.view.labels[found.query]),
              position: found.place,
              layer: found.view.layer,
              head: found.view.head,
            })}</span>`
          : null
      }
    </h3>
    ${found ? html`<${Picture} found=${found} />` : html`<p class="hint">${problem}</p>`}
    ${found ? html`<${Foot} output=${found.output} />` : null}
  </section>`;
}

/** Comparison of the computed sum with the captured output. @param {{output: AttentionOutput}} props */
function Foot({ output: { recorded, largest } }) {
  const summed = html`Σ <${Fidelity} kind="derived" formula=${t("output.formula")} />`;
  return html`<p class="panel-foot num" id="output-foot">${summed}${
    recorded
      ? html` = ${t("output.captured")} <${Fidelity} kind="captured" /> ${t("output.equal", {
          max: difference(largest ?? 0),
        })}`
      : html` · ${t("output.uncaptured")}`
  }</p>`;
}

/** @param {{found: Shown}} props */
function Picture({ found: { output, view, place } }) {
  const ref = usePainter(
    () => [shown.value, themeVersion.value, language.value, shown.value.found?.progress()],
    (box, size) => {
      const canvas = /** @type {HTMLCanvasElement} */ (box.querySelector("canvas"));
      const c = prepare(canvas, size.width, size.height);
      c.font = `11px ${getComputedStyle(canvas).fontFamily}`;
      const { found } = shown.peek();
      if (found && size.width) paintOutput(c, found.view, found.output, size, found.progress());
    },
  );
  const leave = () => ((hovered.value = null), hideTip());
  const norm = Math.hypot(...output.sum);
  const label = t("output.label", { n: grouped(output.weights.length), d: output.sum.length, norm: plain(norm) });
  return html`<div class="panel-canvas output-picture" ref=${ref} role="img" aria-label=${label}
    onPointerMove=${(/** @type {PointerEvent & {currentTarget: HTMLElement}} */ event) =>
      showCell(event, view, place, output)}
    onPointerLeave=${leave}><canvas aria-hidden="true"></canvas></div>`;
}

/**
 * Show the numbers behind the cell under the pointer and highlight its key in all views.
 * @param {PointerEvent & {currentTarget: HTMLElement}} event
 * @param {View} view
 * @param {number} place position of the query
 * @param {AttentionOutput} output
 */
function showCell(event, view, place, output) {
  const box = event.currentTarget.getBoundingClientRect();
  const layout = layoutOf(output, box);
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const row = layout.rows.findLast((one) => one.y <= y);
  const position = row?.kind === "key" ? output.positions[row.keys[0]] : null;
  hovered.value = position === null ? null : { query: place, position };
  const from = layout.value !== null && x < layout.part ? layout.value : layout.part;
  const d = Math.floor(((x - from) / layout.stripe) * output.sum.length);
  if (!row || d < 0 || d >= output.sum.length) return hideTip();
  const number = partOf(output, row)[d];
  const values = { name: nameOf(view, output, row), d, value: sixDigits(number) };
  if (row.kind === "key") {
    const i = row.keys[0];
    const parts = { v: sixDigits(output.values[i][d]), weight: sixDigits(output.weights[i]) };
    return tipAt(event.clientX, event.clientY, [t("output.cell", { ...values, ...parts })]);
  }
  tipAt(event.clientX, event.clientY, [t("output.number", values)]);
}

/** @param {number} value */
const sixDigits = (value) => Number(value.toPrecision(6));
