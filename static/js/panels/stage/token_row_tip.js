// Tooltip of a column with the numbers of its vectors. All are captured values, except the derived norm.

import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { describe, KINDS, shownCell } from "./token_row_columns.js";

/** @import {Children} from "../../kit/html.js" */
/** @import {View} from "../../state/store.js" */
/** @import {Kind} from "./token_row_columns.js" */

const MAX_NUMBERS = 64; // listed numbers of a vector

/** @param {number} value */
const figure = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toString());

/** Return the Euclidean norm of a vector, √Σx². @param {Float32Array} vector */
function norm(vector) {
  let sum = 0;
  for (const value of vector) sum += value * value;
  return Math.sqrt(sum);
}

/**
 * Return the element type of K and V (as cached) or Q (as computed).
 * @param {Pick<import("../../core/trace.js").Header, "model" | "engine">} header @param {Kind} kind
 */
function elementType({ model, engine }, kind) {
  return kind === "q" || !engine.kv_cache_dtype || engine.kv_cache_dtype === "auto"
    ? model.dtype
    : engine.kv_cache_dtype;
}

/**
 * Return the tooltip lines of a column: its description, then the numbers of the vector `kind`, or without `kind` the
 * norms of all vectors.
 * @param {View} now @param {number} position @param {number | null} sub
 * @param {Kind | null} [kind]
 * @param {number | null} [component]
 */
export function columnTip(now, position, sub, kind = null, component = null) {
  const [head, ...rest] = describe(now, position, sub);
  /** @type {Children[]} */
  const lines = [html`<b>${head}</b>`, ...rest];
  if (kind) lines.push(vectorLine(now, kind, position, sub, component));
  else lines.push(html`<${Norms} now=${now} position=${position} sub=${sub} />`);
  return lines;
}

/** @param {{now: View, position: number, sub: number | null}} props */
function Norms({ now, position, sub }) {
  const vectors = KINDS.flatMap((kind) => {
    const { vector } = shownCell(now, kind, position, sub);
    return vector ? [{ kind, vector }] : [];
  });
  if (!vectors.length) return null;
  return html`<span class="tip-norms num">
    ${vectors.map(
      ({ kind, vector }) => html`<span
      class=${`tip-kind ${kind}`}>‖${kind.toUpperCase()}‖ ${figure(norm(vector))}</span> `,
    )} ○
  </span>`;
}

/** @type {Partial<Record<import("./token_row_columns.js").Missing, string>>} */
const MISSING = {
  gone: "stage.vector.gone",
  released: "stage.column.released",
  loading: "stage.no_attention.loading",
  uncaptured: "stage.column.uncaptured",
};

/**
 * @param {View} now @param {Kind} kind @param {number} position
 * @param {number | null} sub @param {number | null} component
 */
function vectorLine(now, kind, position, sub, component) {
  const name = kind.toUpperCase();
  const { vector, missing } = shownCell(now, kind, position, sub);
  if (!vector)
    return MISSING[missing]
      ? html`<span class=${`tip-kind ${kind}`}>${name}</span> ${t(MISSING[missing] ?? "")}`
      : null;
  const head = kind === "q" ? t("stage.vector.head", { h: now.head }) : t("stage.vector.kv_head", { h: now.kvHead });
  const values = { kind: name, n: vector.length, dtype: elementType(now.log.header, kind), layer: now.layer, head };
  return html`<div class="tip-vector">
    <div><span class=${`tip-kind ${kind}`}>${name}</span> ● ${t(
      "stage.vector",
      values,
    )} · ‖${name}‖ = ${figure(norm(vector))} ○</div>
    ${
      component === null
        ? null
        : html`<div
      class="num">${name}[${component}] = <b>${figure(vector[component])}</b></div>`
    }
    <div class="tip-numbers num">
      ${Array.from(
        vector.subarray(0, MAX_NUMBERS),
        (value, i) => html`<span
        class=${i === component ? "here" : ""}>${value.toFixed(2).replace("-", "−")}</span>`,
      )}
      ${vector.length > MAX_NUMBERS ? html`<span>…</span>` : null}
    </div>
  </div>`;
}

/**
 * Describe a vector in a sentence, for screen readers.
 * @param {View} now @param {Kind} kind @param {number} position
 * @param {number | null} sub
 */
export function vectorSentence(now, kind, position, sub) {
  const { vector, missing } = shownCell(now, kind, position, sub);
  const name = kind.toUpperCase();
  if (!vector) return MISSING[missing] ? `${name}: ${t(MISSING[missing] ?? "")}` : "";
  let [low, high] = [Infinity, -Infinity];
  for (const value of vector) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return t("stage.vector.spoken", {
    kind: name,
    n: vector.length,
    dtype: elementType(now.log.header, kind),
    norm: figure(norm(vector)),
    low: figure(low),
    high: figure(high),
  });
}
