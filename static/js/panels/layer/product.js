// A query, key or value as a matrix product: each element is a row of the head's weights times attention's input.

import { useEffect, useLayoutEffect, useMemo } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { asBytes, decode } from "../../core/codec.js";
import { kvShapeOf } from "../../core/shape.js";
import { grouped, t } from "../../i18n/words.js";
import { contextOf, prepare, usePainter } from "../../kit/canvas.js";
import { alpha, colours, divergingAt, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { pointIn } from "../../kit/measure.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { askModel } from "../../net/commands.js";
import { largestOf } from "./geometry.js";
import { attentionOf, part } from "./model.js";
import { cellAt, heatOf, productLayout, productsOf } from "./product_geometry.js";

/** @import {Signal} from "../../../vendor/signals/signals.js" */
/** @import {Projection} from "../../core/wire.js" */
/** @import {Found} from "./model.js" */

/** @typedef {"q" | "k" | "v"} Vector */

/** Vector whose matrix product is shown instead of the layer's picture, or null. @type {Signal<Vector | null>} */
export const shownPart = signal(null);

/** @typedef {{key: string, weights?: Projection, problem?: string}} Answer */
/** @type {Signal<Answer>} */
const answer = signal({ key: "" });
/** @type {Signal<number | null>} */
const chosenRow = signal(null); // null: the row with the largest result

const TEXT_HEIGHT = 64; // px of the text lines above and below the picture

/** @param {number} value */
const short = (value) => String(Number(value.toPrecision(3))).replace("-", "−");

/** @param {{found: Found, kind: Vector, width: number, height: number}} props */
export function Product({ found, kind, width, height }) {
  const { now, stream } = found;
  const head = kind === "q" ? now.head : now.kvHead;
  const key = [now.log.header.model.name, stream.layer, kind, head].join("/");
  useLayoutEffect(() => {
    // the part that had the focus has been removed
    if (document.activeElement === document.body) document.getElementById("layer-product-close")?.focus();
  }, []);
  useEffect(() => {
    chosenRow.value = null;
    if (answer.peek().key !== key) void request(key, { layer: stream.layer, part: kind, head });
  }, [key]);
  const { weights, problem } = answer.value.key === key ? answer.value : {};
  const input = part(found, "attention_in");
  const heads =
    kind === "q" ? now.log.header.model.num_heads : kvShapeOf(now.log.header.model, stream.layer).num_kv_heads;
  const title = t(`layer.product.${kind}`, { head, heads });
  return html`<div class="layer-product" id="layer-product" data-hue=${kind}>
    <p class="layer-product-head"><b>${title}</b>
      <button class="link" id="layer-product-close" onClick=${tolerance}>${t("layer.product.close")}</button></p>
    ${
      weights && input
        ? html`<${ProductPicture} found=${found} kind=${kind} weights=${weights} input=${input} width=${width}
            height=${height - TEXT_HEIGHT} title=${title} />`
        : html`<p class="hint" role="status">${problem ?? t(input ? "layer.waits" : "layer.product.unread")}</p>`
    }
  </div>`;
}

/** Return to the picture of the layer and focus the part. */
function tolerance() {
  const kind = shownPart.peek();
  shownPart.value = null;
  requestAnimationFrame(() => {
    const from = /** @type {SVGElement | null} */ (document.querySelector(`.layer-part[data-part="${kind}"]`));
    from?.focus();
  });
}

/** @param {string} key @param {{layer: number, part: Vector, head: number}} message */
async function request(key, message) {
  answer.value = { key };
  const done = await askModel("projection", message);
  if (answer.peek().key !== key) return; // another part was chosen in the meantime
  answer.value =
    typeof done === "string"
      ? { key, problem: done }
      : { key, weights: /** @type {Projection} */ (decode(asBytes(done.projection))) };
}

/**
 * @param {{found: Found, kind: Vector, weights: Projection, input: Float32Array, width: number, height: number,
 *   title: string}} props
 */
function ProductPicture({ found, kind, weights, input, width, height, title }) {
  const [rows, count] = weights.weight.shape;
  const product = useMemo(() => productsOf(weights, input), [weights, input]);
  const cached = attentionOf(found)[kind].values;
  const row = Math.min(rows - 1, chosenRow.value ?? indexOfLargest(product));
  const layout = productLayout(width, height, rows, count);
  const heat = useMemo(
    () => heatOf(weights.weight, layout.matrix.width, layout.matrix.height),
    [weights, layout.matrix.width, layout.matrix.height],
  );
  const ref = usePainter(
    () => [themeVersion.value],
    (element, size) => {
      const canvas = element.querySelector("canvas");
      if (canvas)
        paint(prepare(canvas, size.width, size.height), { layout, heat, weights, input, product, cached, row, kind });
    },
  );
  const products = weights.weight.row(row).map((w, j) => w * input[j]);
  const bias = weights.bias.row()[row];
  const tolerance = 1e-3 * largestOf([cached]);
  const isEqual = product.every((value, i) => Math.abs(value - cached[i]) <= tolerance);
  const text = t(isEqual ? "layer.product.row" : "layer.product.row_then", {
    row,
    n: grouped(count),
    bias: bias ? ` + ${short(bias)}` : "",
    made: short(product[row]),
    cached: short(cached[row]),
  });
  /** @param {PointerEvent} event */
  const onPointer = (event) => {
    const { x, y } = pointIn(event, /** @type {HTMLElement} */ (event.currentTarget));
    const at = cellAt(layout, x, y);
    if (!at) return hideTip();
    chosenRow.value = at.row;
    const j = at.column;
    if (j === null) return hideTip();
    const [w, x_] = [weights.weight.row(at.row)[j], input[j]];
    tipAt(event.clientX, event.clientY, [
      t("layer.product.cell", { row: at.row, column: j, w: short(w), x: short(x_), product: short(w * x_) }),
    ]);
  };
  return html`<div class="layer-product-picture" ref=${ref} style=${{ height: `${layout.height}px` }} tabindex="0"
      role="slider" aria-label=${title} aria-valuemin="0" aria-valuemax=${rows - 1} aria-valuenow=${row}
      aria-valuetext=${text} data-arrows onKeyDown=${(/** @type {KeyboardEvent} */ e) => move(e, row, rows)}
      onPointerMove=${onPointer} onPointerDown=${onPointer} onPointerLeave=${hideTip}>
      <canvas aria-hidden="true"></canvas>
    </div>
    <p class="layer-product-said num">${text} ${t("layer.product.most", { found: largestText(products) })}</p>`;
}

/** Move between rows with ↑ and ↓. @param {KeyboardEvent} event @param {number} row @param {number} rows */
function move(event, row, rows) {
  const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -8, PageDown: 8 }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  chosenRow.value = Math.max(0, Math.min(rows - 1, row + by));
}

/** @param {Float32Array} values */
const indexOfLargest = (values) => values.reduce((best, v, i) => (Math.abs(v) > Math.abs(values[best]) ? i : best), 0);

/** Text of the three largest products. @param {Float32Array} products */
const largestText = (products) =>
  [...products.keys()]
    .sort((a, b) => Math.abs(products[b]) - Math.abs(products[a]))
    .slice(0, 3)
    .map((j) => `${j}: ${short(products[j])}`)
    .join(" · ");

/**
 * Draw a matrix on a canvas with one pixel per cell.
 * @param {ReturnType<typeof heatOf>} heat @param {ReturnType<typeof colours>["diverging"]} scale
 */
function imageOf({ heatRows, heatColumns, cells, largest }, scale) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: heatColumns, height: heatRows });
  const context = contextOf(canvas);
  const image = context.createImageData(heatColumns, heatRows);
  cells.forEach((value, i) => image.data.set([...divergingAt(scale, value / largest), 255], 4 * i));
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * @param {CanvasRenderingContext2D} c
 * @param {{layout: ReturnType<typeof productLayout>, heat: ReturnType<typeof heatOf>, weights: Projection,
 *   input: Float32Array, product: Float32Array, cached: Float32Array, row: number, kind: Vector}} drawn
 */
function paint(c, { layout, heat, weights, input, product, cached, row, kind }) {
  const palette = colours();
  const scale = palette.diverging;
  const { matrix, x, y, products } = layout;
  const last = layout.cached;
  /** @type {(values: ArrayLike<number>, most: number, box: typeof matrix, across: boolean) => void} */
  const line = (values, most, box, across) => {
    const size = (across ? box.width : box.height) / values.length;
    for (let i = 0; i < values.length; i++) {
      const [r, g, b] = divergingAt(scale, values[i] / most);
      c.fillStyle = `rgb(${r},${g},${b})`;
      if (across) c.fillRect(box.x + i * size, box.y, size + 0.3, box.height);
      else c.fillRect(box.x, box.y + i * size, box.width, size + 0.3);
    }
  };
  c.imageSmoothingEnabled = false;
  c.drawImage(imageOf(heat, scale), matrix.x, matrix.y, matrix.width, matrix.height);
  line(input, largestOf([input]), x, true);
  const most = largestOf([product, cached]);
  line(product, most, y, false);
  line(cached, most, last, false);

  const unit = matrix.height / product.length;
  const at = matrix.y + row * unit;
  c.fillStyle = alpha(palette.paper, 0.55); // dim all other rows
  c.fillRect(matrix.x, matrix.y, matrix.width, at - matrix.y);
  c.fillRect(matrix.x, at + unit, matrix.width, matrix.y + matrix.height - at - unit);
  c.strokeStyle = palette[kind];
  c.lineWidth = 1.5;
  for (const box of [matrix, y, last]) c.strokeRect(box.x - 1, at - 1, box.width + 2, unit + 2);

  const rowWeights = weights.weight.row(row);
  const largest = Math.max(...rowWeights.map((w, j) => Math.abs(w * input[j]))) || 1;
  const [step, middle] = [products.width / rowWeights.length, products.y + products.height / 2];
  for (let j = 0; j < rowWeights.length; j++) {
    const value = rowWeights[j] * input[j];
    const tall = (Math.abs(value) / largest) * (products.height / 2);
    c.fillStyle = value < 0 ? palette.neg : palette.pos;
    c.fillRect(products.x + j * step, value < 0 ? middle : middle - tall, Math.max(0.7, step - 0.4), tall);
  }
  c.fillStyle = palette["ink-3"];
  c.fillRect(products.x, middle, products.width, 0.5);
  c.font = "12px system-ui, sans-serif";
  c.fillStyle = palette["ink-2"];
  c.textAlign = "right";
  const left = matrix.x - 8;
  c.fillText("x", left, x.y + x.height - 2);
  c.fillText(`W`, left, matrix.y + matrix.height / 2 + 4);
  c.fillText("w·x", left, middle + 4);
  c.textAlign = "center";
  c.fillText("W·x", y.x + y.width / 2, y.y - 6);
  c.fillText(kind.toUpperCase(), last.x + last.width / 2, last.y - 6);
  c.fillText("→", (y.x + y.width + last.x) / 2, at + unit / 2 + 4);
}
