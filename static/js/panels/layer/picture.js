// Picture of a layer: the residual stream as a band, and attention and feed-forward as branches added to it.

import { labelText } from "../../core/labels.js";
import { kvShapeOf } from "../../core/shape.js";
import { grouped, probabilityText, t } from "../../i18n/words.js";
import { labelWidth } from "../../kit/canvas.js";
import { colours, divergingAt, sequentialAt, themeVersion } from "../../kit/colour.js";
import { moveFocusAmong } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { largestOf, layoutOf, pooled, spaced } from "./geometry.js";
import { attentionOf, part } from "./model.js";
import { shownPart } from "./product.js";

/** @import {Box} from "./geometry.js" */
/** @import {Found} from "./model.js" */

/**
 * @typedef {ReturnType<typeof layoutOf>} Layout
 * `scaleMax` is the value with the full colour.
 * @typedef {{name: string, values: Float32Array | null, scaleMax: number, captured?: boolean, label: string,
 *   tip: string, hue?: string, below?: string | null}} Column
 */

const STREAM = ["embedding", "before", "attention", "between", "ffn", "after"];
/** @type {("q" | "k" | "v")[]} */
const PRODUCTS = ["q", "k", "v"]; // clicking these parts opens their matrix product
const MAX_CELLS = 128; // maximum number of cells of a vector; longer ones are pooled
const HIDDEN_COLUMNS = 8; // the hidden activation is wrapped into columns
const MIN_CELL = 2; // minimum px of a cell
const NORM_HALF_WIDTH = 18; // px of half a norm's text
const KEY_FONT = 11; // px
const MAX_LABELS = 100; // tokens of this many largest weights are drawn if they fit
const LABEL_GAP = 4; // px

/** @param {{found: Found, width: number, height: number}} props */
export function Picture({ found, width, height }) {
  themeVersion.value;
  const { stream, place } = found;
  const first = stream.layer === 0;
  const layout = layoutOf({ width, height }, { first });
  const columns = columnsOf(found, first);
  const label = t("layer.picture", { layer: stream.layer, position: place });
  const drawn = columns.filter((one) => one.values && layout.boxes[one.name]);
  const between = drawn.findIndex(({ name }) => name === "between");
  if (layout.narrow && between >= 0) drawn.splice(between + 1, 0, { ...drawn[between], name: "between_again" });
  return html`<svg class="layer-picture" width=${width} height=${layout.height} role="group" aria-label=${label}
    viewBox=${`0 0 ${width} ${layout.height}`} onKeyDown=${moveFocus}>
    <${Streams} layout=${layout} width=${width} first=${first} layer=${stream.layer}
      parallel=${stream.is_parallel} last=${stream.layer === stream.norms.shape[0] - 1} />
    ${drawn.map(
      (one, i) => html`<${Heat} key=${one.name} one=${one} box=${layout.boxes[one.name]} first=${i === 0}
        room=${width} />`,
    )}
    <${Weights} found=${found} box=${layout.boxes.weights} layout=${layout} />
    ${["attention", "ffn"].map((name) =>
      part(found, name) ? html`<${Plus} key=${name} name=${name} layout=${layout} found=${found} />` : null,
    )}
  </svg>`;
}

/** @param {Found} found @param {boolean} first @returns {Column[]} */
function columnsOf(found, first) {
  const { now, stream } = found;
  const head = attentionOf(found);
  const shared = largestOf(STREAM.slice(1).map((name) => part(found, name)));
  /** @param {string} name @returns {Column} */
  const vectorColumn = (name) => {
    const values = part(found, name);
    const headColumn = STREAM.indexOf(name) > 0 ? shared : largestOf([values]);
    return columnOf(name, values, headColumn, { layer: stream.layer });
  };
  const headColumn = (/** @type {"q" | "k" | "v"} */ name) => ({
    ...columnOf(name, head[name].values, largestOf([head[name].values]), {
      head: name === "q" ? now.head : now.kvHead,
      heads: name === "q" ? now.log.header.model.num_heads : kvShapeOf(now.log.header.model, stream.layer).num_kv_heads,
    }),
    captured: head[name].captured,
    hue: name,
  });
  const sum = columnOf("sum", head.sum, largestOf([head.sum]), {});
  const norm = (/** @type {Column} */ one, plus = "") => ({
    ...one,
    below: one.values ? `${plus}‖${short(Math.hypot(...one.values))}‖` : null,
  });
  const before = vectorColumn("before");
  if (first) before.label = t("layer.embedding");
  return [
    norm(vectorColumn("embedding")),
    norm(before),
    vectorColumn("attention_in"),
    headColumn("q"),
    headColumn("k"),
    headColumn("v"),
    { ...sum, hue: "q" },
    vectorColumn("attention"),
    norm(vectorColumn("between")),
    vectorColumn("ffn_in"),
    vectorColumn("hidden"),
    vectorColumn("ffn"),
    norm(vectorColumn("after")),
  ];
}

/**
 * @param {string} name @param {Float32Array | null} values @param {number} scaleMax
 * @param {object} more values of its tooltip @returns {Column}
 */
function columnOf(name, values, scaleMax, more) {
  const size = values?.length ?? 0;
  const tip = t(`layer.${name}.tip`, { d: grouped(size), ...more });
  return { name, values, scaleMax, label: t(`layer.${name}`), tip };
}

/**
 * A vector as a heat map. `room` is the picture's width in px.
 * @param {{one: Column, box: Box, first: boolean, room: number}} props
 */
function Heat({ one, box, first, room }) {
  const scale = colours().diverging;
  const values = /** @type {Float32Array} */ (one.values);
  const numColumns = one.name === "hidden" ? HIDDEN_COLUMNS : 1;
  const maxCells = Math.min(MAX_CELLS, numColumns * Math.floor(box.height / MIN_CELL));
  const cells = pooled(values, maxCells);
  const numRows = Math.ceil(cells.length / numColumns);
  const [cellWidth, tall] = [box.width / numColumns, box.height / numRows];
  const shared =
    cells.length < values.length ? t("layer.pooled", { n: grouped(values.length), cells: cells.length }) : null;
  const scaled = t("layer.scale", { most: short(one.scaleMax) });
  const kind = t(one.captured ? "fidelity.captured" : "fidelity.derived", { formula: t("layer.again") });
  const isBelow = one.below !== undefined && one.name !== "embedding";
  const center = box.x + box.width / 2;
  const half = labelWidth(one.label) * 0.36; // the font size is 12 px; `labelWidth` assumes 17 px
  const middle = Math.max(half, Math.min(room - half, center));
  const hue = one.hue ?? null;
  const product = PRODUCTS.find((name) => name === one.name);
  const openHint = product ? t("layer.product.open") : null;
  const lines = [one.tip, kind, scaled, shared, one.below ? t("layer.length") : null, openHint];
  const open = () => product && (shownPart.value = product);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // otherwise the button that receives the focus is pressed too
    open();
  };
  return html`<g class="layer-part" data-part=${one.name} data-hue=${hue} tabindex=${first ? 0 : -1}
    role=${product ? "button" : "img"} onClick=${open} onKeyDown=${onKeyDown}
    data-arrows aria-label=${`${one.label}: ${one.tip}`} ...${tips(lines)}>
    <rect class="layer-hit" x=${box.x - 6} y=${box.y - 4} width=${box.width + 12} height=${box.height + 8} />
    ${Array.from(cells, (value, i) => {
      const [r, g, b] = divergingAt(scale, value / one.scaleMax);
      return html`<rect x=${box.x + cellWidth * Math.floor(i / numRows)} y=${box.y + tall * (i % numRows)}
        width=${cellWidth + 0.4} height=${tall + 0.4} fill=${`rgb(${r},${g},${b})`} />`;
    })}
    <rect class="layer-frame" x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx="2" />
    <text class="layer-name" x=${middle} y=${isBelow ? box.y + box.height + 20 : box.y - 6}>${one.label}</text>
    ${
      one.below
        ? html`<text class="layer-norm" x=${Math.min(room - NORM_HALF_WIDTH, center)}
            y=${box.y + box.height + (isBelow ? 34 : 20)}>${one.below}</text>`
        : null
    }
  </g>`;
}

/**
 * The band, its input and output, and the branches.
 * @param {{layout: Layout, width: number, first: boolean, last: boolean, layer: number, parallel: boolean}} props
 */
function Streams({ layout, width, first, last, layer, parallel }) {
  const { boxes, tall, attention, ffn, column, edge, narrow } = layout;
  const reach = 8;
  const bands = narrow
    ? [
        [boxes.before, boxes.between],
        [boxes.between_again, boxes.after],
      ]
    : [[boxes.before, boxes.after]];
  const from = (/** @type {Box} */ box) => box.x - reach;
  const end = boxes.after.x + column;
  return html`<g aria-hidden="true">
    ${bands.map(
      ([a, b]) => html`<rect class="layer-band" x=${from(a)} y=${a.y - reach} rx="6"
      width=${b.x + b.width + reach - from(a)} height=${tall + 2 * reach} />`,
    )}
    ${bands.map(([a, b]) => html`<path class="layer-line" d=${`M${a.x + column} ${a.y + tall / 2}H${b.x}`} />`)}
    ${
      first
        ? null
        : html`<path class="layer-line dashed"
            d=${`M${edge + column} ${boxes.before.y + tall / 2}H${from(boxes.before)}`} />
          ${
            narrow
              ? null
              : [t(layer === 1 ? "layer.skipped_one" : "layer.skipped"), layer === 1 ? "0" : `0–${layer - 1}`].map(
                  (text, line) => html`<text class="layer-note" x=${(edge + column + from(boxes.before)) / 2}
                    y=${boxes.before.y + tall / 2 - 6 + 22 * line}>${text}</text>`,
                )
          }`
    }
    ${[attention, ffn].map((branch) => {
      const [up, down] = [branch.top + tall / 2, branch.band + tall / 2];
      const bend = 8;
      return html`<path class="layer-line" d=${`M${branch.tap} ${down}V${up + bend}q0 ${-bend} ${bend} ${-bend}H${
        branch.plus - bend
      }q${bend} 0 ${bend} ${bend}V${down - 9}`} />`;
    })}
    ${[attention, ffn].map(
      (branch, i) =>
        html`<text class="layer-block" x=${(branch.tap + branch.plus) / 2} y=${branch.top + tall + 15}>${t(
          i ? (parallel ? "layer.ffn_beside" : "layer.ffn_block") : "layer.attention_block",
        )}</text>`,
    )}
    <text class="layer-note" x=${(attention.tap + attention.plus) / 2} y=${boxes.before.y + tall + 4}
      >${t("layer.stream")}</text>
    ${
      narrow
        ? null
        : html`<path class="layer-line dashed" d=${`M${end + reach} ${boxes.after.y + tall / 2}H${width - 4}`} />
          <text class="layer-note" x=${(end + reach + width) / 2} y=${boxes.after.y + tall / 2 - 6}>${t(
            last ? "layer.to_head" : "layer.to_next",
            { to: layer + 1 },
          )}</text>`
    }
  </g>`;
}

/** The addition of a branch's output, with its norm. @param {{name: string, layout: Layout, found: Found}} props */
function Plus({ name, layout, found }) {
  const branch = name === "ffn" ? layout.ffn : layout.attention;
  const y = branch.band + layout.tall / 2;
  const size = short(Math.hypot(.../** @type {Float32Array} */ (part(found, name))));
  const label = t(`layer.plus.${name}`, { size });
  return html`<g class="layer-part layer-plus" tabindex="-1" role="img" data-arrows aria-label=${label} ...${tips([
    label,
    t("fidelity.derived", { formula: t("layer.again") }),
  ])}>
    <circle cx=${branch.plus} cy=${y} r="9" />
    <path d=${`M${branch.plus - 4.5} ${y}h9M${branch.plus} ${y - 4.5}v9`} />
    <text class="layer-norm end" x=${branch.plus - 13} y=${y - 6}>+‖${size}‖</text>
  </g>`;
}

/** Attention weights of the chosen head over the keys. @param {{found: Found, box: Box, layout: Layout}} props */
function Weights({ found, box }) {
  const { now, place } = found;
  const { weights } = attentionOf(found);
  const scale = colours().sequential;
  const bars = pooled(weights.values, Math.floor(box.width / 3));
  const barWidth = box.width / bars.length;
  const largest = largestOf([bars]);
  const order = [...weights.values.keys()].sort((a, b) => weights.values[b] - weights.values[a]);
  const texts = order.slice(0, MAX_LABELS).map((i) => {
    const text = labelText(now.labels[i]);
    return { text, x: ((i + 0.5) / order.length) * box.width, width: labelWidth(text) * (KEY_FONT / 17) };
  });
  const keys = order
    .slice(0, 3)
    .map((i) => `“${labelText(now.labels[i])}” ${i}: ${probabilityText(weights.values[i])}`);
  const tip = t("layer.weights.tip", { n: grouped(place + 1), head: now.head });
  const kind = t(weights.captured ? "fidelity.captured" : "fidelity.derived", { formula: t("layer.again") });
  return html`<g class="layer-part" data-part="weights" tabindex="-1" role="img" data-arrows
    aria-label=${`${t("layer.weights")}: ${tip} ${keys.join(", ")}`} ...${tips([tip, keys.join(" · "), kind])}>
    <rect class="layer-room" x=${box.x - 4} y=${box.y} width=${box.width + 8} height=${box.height} rx="4" />
    ${Array.from(bars, (value, i) => {
      const tall = (value / largest) * (box.height - 18);
      return html`<rect x=${box.x + i * barWidth + 0.5} y=${box.y + box.height - 14 - tall}
        width=${Math.max(1, barWidth - 1)} height=${Math.max(0.5, tall)}
        fill=${sequentialAt(scale, 0.25 + (0.75 * value) / largest)} />`;
    })}
    <path class="layer-line" d=${`M${box.x} ${box.y + box.height - 13.5}h${box.width}`} />
    ${spaced(texts, box.width, LABEL_GAP).map(
      ({ text, x }) => html`<text class="layer-key" style=${{ fontSize: `${KEY_FONT}px` }} x=${box.x + x}
        y=${box.y + box.height - 2}>${text}</text>`,
    )}
    <text class="layer-name" x=${box.x + box.width / 2} y=${box.y - 6}>${t("layer.weights")}</text>
  </g>`;
}

const moveFocus = moveFocusAmong(".layer-part");

/** @param {number} value */
const short = (value) => (value >= 100 ? grouped(Math.round(value)) : String(Number(value.toPrecision(2))));
