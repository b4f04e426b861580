// The captured arrays of both runs as pictures: how far the keys are apart, and the attention rows beside each other.

import { labelText, tokenLabels } from "../../core/labels.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { alpha, colours, sequentialAt, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { Fidelity, hideTip, tipAt } from "../../kit/parts.js";
import { wastePattern } from "../../kit/texture.js";
import { recordAt } from "../../runs/fault.js";
import { attentionRows, keyDifferences, mostTellingHead } from "../../runs/fault_arrays.js";
import { language } from "../../tell/language.js";
import { probabilityText, t } from "../../tell/words.js";
import { LANES, lanes } from "./model.js";
import { figure, seqName } from "./words.js";

const GUTTER = 22; // px left of the layers, for their names
const AXIS = 16; // px below them, for the tokens
const LABELLED = 13; // px of a column from which its token is written
const BENT = 0.5; // small differences stay visible: the shade is the root of the share

export function Arrays({ now }) {
  if (now.seq === null || now.step === 0) return null;
  const keys = keyDifferences(now.logs, now.step, now.seq);
  const telling = mostTellingHead(now.logs, now.step, now.seq);
  return html`<div class="museum-arrays">
    <${Keys} now=${now} keys=${keys} />
    <section class="museum-rows">
      <h3 class="panel-title">${t("museum.rows", telling)} <${Fidelity} kind="captured" />${telling.most ? html` <span class="museum-where hint">${t("museum.rows.where")}</span>` : null}</h3>
      <div class="museum-squares">
        ${LANES.map((name, i) => html`<${Rows} key=${name} name=${name} rows=${attentionRows(now.logs[i], now.step, now.seq, telling.layer, telling.head)} />`)}
      </div>
      <p class="hint">${t("museum.rows.axes")}</p>
    </section>
  </div>`;
}

const repaint = () => [
  lanes.logs.value,
  lanes.numSteps.value,
  lanes.shownStep.value,
  themeVersion.value,
  language.value,
];

function Keys({ now, keys }) {
  const labels = tokenLabels(wordsOf(now)).map(labelText);
  const ref = usePainter(repaint, (box, { width, height }) =>
    paintKeys(box.querySelector("canvas"), width, height, keys, labels),
  );
  const known = keys.layers.some((values) => values.some((value) => value !== null));
  const told = !known
    ? t("museum.keys.none")
    : keys.worst
      ? t("museum.keys.most", { ...keys.worst, most: figure(keys.most) })
      : t("museum.keys.same");
  const point = (event) => {
    const at = cellAt(event, keys);
    if (!at) return hideTip();
    const value = keys.layers[at.layer][at.position];
    tipAt(event.clientX, event.clientY, [
      t("museum.keys.cell", {
        ...at,
        token: labels[at.position] ?? "",
        value: value === null ? t("museum.keys.unknown") : figure(value),
      }),
    ]);
  };
  return html`<section class="museum-keys">
    <h3 class="panel-title">${t("museum.keys", { name: seqName(now.seq) })} <${Fidelity} kind="derived" formula=${t("museum.keys.formula")} /></h3>
    <div class="museum-keys-plot" ref=${ref} role="img" aria-label=${told} onPointerMove=${point} onPointerLeave=${hideTip}><canvas aria-hidden="true"></canvas></div>
    <p class="hint" id="museum-keys-most">${told}</p>
  </section>`;
}

/** Bytes of the sequence's tokens in the faulty run, whose keys are in question. */
function wordsOf({ logs, step, seq }) {
  const index = recordAt(logs[1], step);
  return index < 0 ? [] : (logs[1].stateAt(index).sequences.get(seq)?.token_bytes ?? []);
}

const geometry = (width, height, keys) => ({
  column: (width - GUTTER) / Math.max(8, keys.layers[0]?.length ?? 0),
  row: (height - AXIS) / Math.max(1, keys.layers.length),
});

function cellAt(event, keys) {
  const box = event.currentTarget.getBoundingClientRect();
  const { column, row } = geometry(box.width, box.height, keys);
  const layer = Math.floor((event.clientY - box.top) / row);
  const position = Math.floor((event.clientX - box.left - GUTTER) / column);
  return keys.layers[layer]?.[position] === undefined ? null : { layer, position };
}

function paintKeys(canvas, width, height, keys, labels) {
  const c = prepare(canvas, width, height);
  const palette = colours();
  const { column, row } = geometry(width, height, keys);
  const gap = column > 4 ? 1 : 0;
  c.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  c.textBaseline = "middle";
  keys.layers.forEach((values, layer) => {
    c.fillStyle = palette["ink-3"];
    c.textAlign = "left";
    c.fillText(t("museum.keys.layer", { layer }), 0, (layer + 0.5) * row);
    values.forEach((value, position) => {
      if (value === null) c.fillStyle = wastePattern(c, palette.waste);
      else
        c.fillStyle =
          value > 0 && keys.most ? alpha(palette.fault, 0.08 + 0.92 * (value / keys.most) ** BENT) : palette["line-2"];
      c.fillRect(GUTTER + position * column, layer * row, Math.max(0.5, column - gap), Math.max(1, row - 1));
    });
  });
  if (column < LABELLED) return;
  c.textAlign = "center";
  c.fillStyle = palette["ink-2"];
  for (let position = 0; position < (keys.layers[0]?.length ?? 0); position++)
    c.fillText(labels[position] ?? "", GUTTER + (position + 0.5) * column, height - AXIS / 2 + 1, column + 2);
}

/** The largest weight on a key after its query, over all rows. */
const largestAbove = (rows) =>
  rows.reduce(
    (most, row, query) =>
      row ? row.weights.reduce((m, weight, i) => (row.keyStart + i > query ? Math.max(m, weight) : m), most) : most,
    0,
  );

function Rows({ name, rows }) {
  const ref = usePainter(repaint, (box, { width, height }) =>
    paintRows(box.querySelector("canvas"), Math.min(width, height), rows),
  );
  const lane = t(`museum.${name}`);
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const cell = Math.min(box.width, box.height) / Math.max(1, rows.length);
    const [query, key] = [Math.floor((event.clientY - box.top) / cell), Math.floor((event.clientX - box.left) / cell)];
    const weight = rows[query]?.weights[key - rows[query].keyStart];
    if (weight === undefined) hideTip();
    else
      tipAt(event.clientX, event.clientY, [
        t("museum.rows.cell", { lane, query, key, weight: probabilityText(weight) }),
      ]);
  };
  const label = t("museum.rows.label", { lane, n: rows.filter(Boolean).length, above: figure(largestAbove(rows)) });
  return html`<figure class="museum-square">
    <div class="museum-square-plot" ref=${ref} role="img" aria-label=${label} data-rows=${name} data-above=${largestAbove(rows)} onPointerMove=${point} onPointerLeave=${hideTip}><canvas aria-hidden="true"></canvas></div>
    <figcaption>${lane}</figcaption>
  </figure>`;
}

function paintRows(canvas, size, rows) {
  const c = prepare(canvas, size, size);
  const palette = colours();
  const cell = size / Math.max(1, rows.length);
  rows.forEach((row, query) => {
    if (!row) {
      c.fillStyle = wastePattern(c, palette.line);
      return c.fillRect(0, query * cell, (query + 1) * cell, cell);
    }
    row.weights.forEach((weight, i) => {
      const key = row.keyStart + i;
      if (key > query && weight === 0) return; // what causality leaves is paper
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
