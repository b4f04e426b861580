// What the query in flight takes with it: each value times its weight, added up; and that the engine's own vector is
// just that.

import { computed } from "../../../vendor/signals/signals.js";
import { outputOf } from "../../core/attention_output.js";
import { labelText } from "../../core/labels.js";
import { originOf } from "../../core/sequence_view.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { difference } from "../../kit/layer_bars.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { wantLayer } from "../../net/commands.js";
import { phase } from "../../state/stage_moment.js";
import { captureVersion, hovered, sequenceView } from "../../state/store.js";
import { language } from "../../tell/language.js";
import { grouped, t } from "../../tell/words.js";
import { layoutOf, nameOf, paintOutput, partOf } from "./output_paint.js";
import { plain } from "./softmax_words.js";

/**
 * @typedef {import("../../core/attention_output.js").AttentionOutput} AttentionOutput
 * @typedef {import("../../state/store.js").View & {query: number}} Now
 */

const attended = computed(() => phase("attend") > 0);

/**
 * What is shown: a problem in words, or the output of the query in flight.
 *
 * @type {import("../../../vendor/signals/signals.js").ReadonlySignal<{problem?: string, found?: AttentionOutput}>}
 */
const shown = computed(() => {
  captureVersion.value;
  const now = sequenceView.value;
  if (!now?.entry || now.query === null || !attended.value) return { problem: t("output.empty") };
  const found = outputOf(now);
  if (!found) return { problem: t("output.missing") };
  if (found.output) return { found: found.output };
  for (const position of found.missing) {
    const origin = originOf(now, position);
    if (origin) wantLayer(origin.record, now.layer);
  }
  return { problem: t("output.values_missing", { n: grouped(found.missing.length) }) };
});

/** @param {{choice?: import("../../kit/html.js").Children}} props */
export function Output({ choice = null }) {
  const { problem, found } = shown.value;
  const now = /** @type {Now} */ (sequenceView.value); // there is one where something is found
  return html`<section class="panel softmax output" id="attention-output" data-largest=${found?.largest ?? ""}>
    <h3 class="panel-title">
      ${choice ?? t("output.title")}
      ${
        found
          ? html`<span class="softmax-query">${t("output.of", {
              token: labelText(now.labels[now.query]),
              position: now.query,
              layer: now.layer,
              head: now.head,
            })}</span>`
          : null
      }
    </h3>
    ${found ? html`<${Picture} now=${now} output=${found} />` : html`<p class="hint">${problem}</p>`}
    ${found ? html`<${Foot} output=${found} />` : null}
  </section>`;
}

/** That both are one, in numbers. @param {{output: AttentionOutput}} props */
function Foot({ output: { kept, largest } }) {
  const summed = html`Σ <${Fidelity} kind="derived" formula=${t("output.formula")} />`;
  return html`<p class="panel-foot num" id="output-foot">${summed}${
    kept
      ? html` = ${t("output.captured")} <${Fidelity} kind="captured" /> ${t("output.equal", {
          max: difference(largest ?? 0),
        })}`
      : html` · ${t("output.uncaptured")}`
  }</p>`;
}

/** @param {{now: Now, output: AttentionOutput}} props */
function Picture({ now, output }) {
  const ref = usePainter(
    () => [sequenceView.value, captureVersion.value, themeVersion.value, language.value, phase("attend")],
    (box, size) => {
      const canvas = /** @type {HTMLCanvasElement} */ (box.querySelector("canvas"));
      const c = prepare(canvas, size.width, size.height);
      c.font = `11px ${getComputedStyle(canvas).fontFamily}`;
      const [view, found] = [sequenceView.peek(), shown.peek().found];
      if (view && found && size.width) paintOutput(c, view, found, size, phase("attend"));
    },
  );
  const leave = () => ((hovered.value = null), hideTip());
  const norm = Math.hypot(...output.sum);
  const label = t("output.label", { n: grouped(output.weights.length), d: output.sum.length, norm: plain(norm) });
  return html`<div class="panel-canvas output-picture" ref=${ref} role="img" aria-label=${label}
    onPointerMove=${(/** @type {PointerEvent & {currentTarget: HTMLElement}} */ event) => point(event, now, output)}
    onPointerLeave=${leave}><canvas aria-hidden="true"></canvas></div>`;
}

/**
 * The numbers behind the cell under the pointer; its key lights up everywhere.
 *
 * @param {PointerEvent & {currentTarget: HTMLElement}} event
 * @param {Now} now
 * @param {AttentionOutput} output
 */
function point(event, now, output) {
  const box = event.currentTarget.getBoundingClientRect();
  const layout = layoutOf(output, box);
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const row = layout.rows.findLast((one) => one.y <= y);
  const position = row?.kind === "key" ? output.positions[row.keys[0]] : null;
  hovered.value = position === null ? null : { query: now.query, position };
  const from = layout.value !== null && x < layout.part ? layout.value : layout.part;
  const d = Math.floor(((x - from) / layout.stripe) * output.sum.length);
  if (!row || d < 0 || d >= output.sum.length) return hideTip();
  const number = partOf(output, row)[d];
  const values = { name: nameOf(now, output, row), d, value: exact(number) };
  if (row.kind === "key") {
    const i = row.keys[0];
    const parts = { v: exact(output.values[i][d]), weight: exact(output.weights[i]) };
    return tipAt(event.clientX, event.clientY, [t("output.cell", { ...values, ...parts })]);
  }
  tipAt(event.clientX, event.clientY, [t("output.number", values)]);
}

/** @param {number} value */
const exact = (value) => Number(value.toPrecision(6));
