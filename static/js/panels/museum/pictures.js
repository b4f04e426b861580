// Pictures of the captured arrays of both runs: differences of keys, and attention rows side by side.

import { sequenceName } from "../../i18n/operations.js";
import { probabilityText, t } from "../../i18n/words.js";
import { alpha, colours, sequentialAt } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { wastePattern } from "../../kit/texture.js";
import { Picture } from "../../runs/picture.js";
import { recordAt } from "../../runs/steps.js";
import { labelsOfBytes } from "../../runs/tokens.js";
import { attentionRows, keyDifferences, mostDifferentHead } from "./arrays.js";
import { Layers, layerDifferences } from "./layers.js";
import { LANES, names, player } from "./model.js";
import { figure } from "./words.js";

/** @import {Point, Size} from "../../runs/picture.js" */
/** @import {KeyDifferences, Row} from "./arrays.js" */
/** @import {Scene} from "./model.js" */

const NAME_WIDTH = 22; // px for the layers' names
const AXIS_HEIGHT = 16; // px for the tokens
const LABEL_FROM = 13; // minimum px of a column for its token
const SHADE = 0.5; // exponent that keeps small differences visible

/** @param {{now: Scene}} props */
export function Arrays({ now: { logs, step, seq } }) {
  if (seq === null || step === 0) return null;
  const head = mostDifferentHead(logs, step, seq);
  const rows = (/** @type {number} */ i) => attentionRows(logs[i], step, seq, head.layer, head.head);
  return html`<div class="museum-arrays">
    <${Keys} name=${sequenceName(seq)} keys=${keyDifferences(logs, step, seq)} labels=${labelsIn(logs[1], step, seq)}
      layers=${layerDifferences(logs, step, seq)} />
    <section class="museum-rows">
      <h3 class="panel-title">
        ${t("museum.rows", head)} <${Fidelity} kind="captured" />
        ${head.most ? html` <span class="museum-where hint">${t("museum.rows.where")}</span>` : null}
      </h3>
      <div class="museum-squares">
        ${names().map((name, i) => html`<${Rows} key=${LANES[i]} id=${LANES[i]} name=${name} rows=${rows(i)} />`)}
      </div>
      <p class="hint">${t("museum.rows.axes")}</p>
    </section>
  </div>`;
}

/**
 * @param {{
 *   name: string, keys: KeyDifferences, labels: string[],
 *   layers: import("../../core/layer_differences.js").LayerDifference[],
 * }} props
 */
function Keys({ name, keys, labels, layers }) {
  const hasValues = keys.layers.some((values) => values.some((value) => value !== null));
  const text = !hasValues
    ? t("museum.keys.none")
    : keys.worst
      ? t("museum.keys.most", { ...keys.worst, most: figure(keys.most) })
      : t("museum.keys.same");
  const paint = (/** @type {CanvasRenderingContext2D} */ c, /** @type {Size} */ size) =>
    paintKeys(c, size, keys, labels);
  const tipOf = (/** @type {Point} */ { x, y }, /** @type {Size} */ size) => {
    const { column, row } = geometry(size, keys);
    const [layer, position] = [Math.floor(y / row), Math.floor((x - NAME_WIDTH) / column)];
    const value = keys.layers[layer]?.[position];
    if (value === undefined) return null;
    const text = value === null ? t("museum.keys.unknown") : figure(value);
    return t("museum.keys.cell", { layer, position, token: labels[position] ?? "", value: text });
  };
  return html`<section class="museum-keys">
    <h3 class="panel-title">
      ${t("museum.keys", { name })} <${Fidelity} kind="derived" formula=${t("museum.keys.formula")} />
    </h3>
    <${Picture} player=${player} name="museum-keys-plot" label=${text} paint=${paint} tipOf=${tipOf} />
    <p class="hint" id="museum-keys-most">${text}</p>
    <${Layers} layers=${layers} />
  </section>`;
}

/**
 * Labels of the sequence's tokens in a log after `step` steps.
 * @param {import("../../core/log.js").TraceLog} log @param {number} step @param {number} seq
 */
function labelsIn(log, step, seq) {
  const index = recordAt(log, step);
  return index < 0 ? [] : labelsOfBytes(log.stateAt(index).sequences.get(seq)?.token_bytes ?? []);
}

/** Size of a cell in px; columns are positions, rows are layers. @param {Size} size @param {KeyDifferences} keys */
const geometry = ({ width, height }, { layers }) => ({
  column: (width - NAME_WIDTH) / Math.max(8, layers[0]?.length ?? 0),
  row: (height - AXIS_HEIGHT) / Math.max(1, layers.length),
});

/** @param {CanvasRenderingContext2D} c @param {Size} size @param {KeyDifferences} keys @param {string[]} labels */
function paintKeys(c, size, keys, labels) {
  const palette = colours();
  const { column, row } = geometry(size, keys);
  const gap = column > 4 ? 1 : 0;
  c.textBaseline = "middle";
  keys.layers.forEach((values, layer) => {
    c.fillStyle = palette["ink-3"];
    c.textAlign = "left";
    c.fillText(t("museum.keys.layer", { layer }), 0, (layer + 0.5) * row);
    values.forEach((value, position) => {
      if (value === null) c.fillStyle = wastePattern(c, palette.waste);
      else
        c.fillStyle =
          value > 0 && keys.most ? alpha(palette.fault, 0.08 + 0.92 * (value / keys.most) ** SHADE) : palette["line-2"];
      c.fillRect(NAME_WIDTH + position * column, layer * row, Math.max(0.5, column - gap), Math.max(1, row - 1));
    });
  });
  if (column < LABEL_FROM) return;
  c.textAlign = "center";
  c.fillStyle = palette["ink-2"];
  for (let position = 0; position < (keys.layers[0]?.length ?? 0); position++)
    c.fillText(
      labels[position] ?? "",
      NAME_WIDTH + (position + 0.5) * column,
      size.height - AXIS_HEIGHT / 2 + 1,
      column + 2,
    );
}

/** Return the largest weight on a key after its query, over all rows. @param {(Row | null)[]} rows */
function largestAbove(rows) {
  const above = rows.map((row, query) => {
    const later = row ? row.weights.subarray(Math.max(0, query + 1 - row.keyStart)) : [];
    return Math.max(0, ...later);
  });
  return Math.max(0, ...above);
}

/** @param {{id: string, name: string, rows: (Row | null)[]}} props */
function Rows({ id, name, rows }) {
  const above = largestAbove(rows);
  const paint = (/** @type {CanvasRenderingContext2D} */ c, /** @type {Size} */ { width, height }) =>
    paintRows(c, Math.min(width, height), rows);
  const tipOf = (/** @type {Point} */ { x, y }, /** @type {Size} */ { width, height }) => {
    const cell = Math.min(width, height) / Math.max(1, rows.length);
    const [query, key] = [Math.floor(y / cell), Math.floor(x / cell)];
    const row = rows[query];
    const weight = row?.weights[key - row.keyStart];
    if (weight === undefined) return null;
    return t("museum.rows.cell", { lane: name, query, key, weight: probabilityText(weight) });
  };
  const label = t("museum.rows.label", { lane: name, n: rows.filter(Boolean).length, above: figure(above) });
  return html`<figure class="museum-square">
    <${Picture}
      player=${player}
      name="museum-square-plot"
      label=${label}
      paint=${paint}
      tipOf=${tipOf}
      data-rows=${id}
      data-above=${above}
    />
    <figcaption>${name}</figcaption>
  </figure>`;
}

/** @param {CanvasRenderingContext2D} c @param {number} size @param {(Row | null)[]} rows */
function paintRows(c, size, rows) {
  const palette = colours();
  const cell = size / Math.max(1, rows.length);
  rows.forEach((row, query) => {
    if (!row) {
      c.fillStyle = wastePattern(c, palette.line);
      return c.fillRect(0, query * cell, (query + 1) * cell, cell);
    }
    row.weights.forEach((weight, i) => {
      const key = row.keyStart + i;
      if (key > query && weight === 0) return; // cells above the diagonal stay blank
      c.fillStyle = sequentialAt(palette.sequential, weight);
      c.fillRect(key * cell, query * cell, cell + 0.3, cell + 0.3);
    });
  });
  c.strokeStyle = palette["ink-3"];
  c.lineWidth = 1;
  c.beginPath();
  for (let query = 0; query < rows.length; query++) {
    c.moveTo((query + 1) * cell, query * cell);
    c.lineTo((query + 1) * cell, (query + 1) * cell);
    c.lineTo((query + 2) * cell, (query + 1) * cell);
  }
  c.stroke();
}
