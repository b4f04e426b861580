// The numbers of a column: what the tooltip shows of a vector. Every one is the captured value; the norm is derived.

import { html } from "../../kit/html.js";
import { t } from "../../tell/words.js";
import { describe, KINDS, shownCell } from "./strip_columns.js";

/**
 * @typedef {import("./strip_columns.js").Kind} Kind
 * @typedef {import("../../state/store.js").View} View
 * @typedef {import("../../kit/html.js").Children} Children
 */

const SHOWN = 64; // numbers of a vector that are written out

/** @param {number} value */
const figure = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toString());

/**
 * Euclidean length of a vector: √Σx².
 *
 * @param {Float32Array} vector
 */
export function norm(vector) {
  let sum = 0;
  for (const value of vector) sum += value * value;
  return Math.sqrt(sum);
}

/**
 * What K, V (as the cache stores them) or Q (as the model computes) are made of.
 *
 * @param {Pick<import("../../core/trace.js").Header, "model" | "engine">} header
 * @param {Kind} kind
 */
export function elementType({ model, engine }, kind) {
  return kind === "q" || !engine.kv_cache_dtype || engine.kv_cache_dtype === "auto"
    ? model.dtype
    : engine.kv_cache_dtype;
}

/**
 * Lines of the tooltip of a column: the column in words, then the vectors: `kind` in full, without one each by its
 * norm.
 *
 * @param {View} now
 * @param {number} position
 * @param {number | null} sub
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
  const known = KINDS.flatMap((kind) => {
    const { vector } = shownCell(now, kind, position, sub);
    return vector ? [{ kind, vector }] : [];
  });
  if (!known.length) return null;
  return html`<span class="tip-norms num">
    ${known.map(
      ({ kind, vector }) => html`<span
      class=${`tip-kind ${kind}`}>‖${kind.toUpperCase()}‖ ${figure(norm(vector))}</span> `,
    )} ○
  </span>`;
}

/** @type {Partial<Record<import("./strip_columns.js").Missing, string>>} */
const MISSING = {
  gone: "stage.vector.gone",
  released: "stage.column.released",
  loading: "stage.no_attention.loading",
  uncaptured: "stage.column.uncaptured",
};

/**
 * @param {View} now
 * @param {Kind} kind
 * @param {number} position
 * @param {number | null} sub
 * @param {number | null} component
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
        vector.subarray(0, SHOWN),
        (value, i) => html`<span
        class=${i === component ? "here" : ""}>${value.toFixed(2).replace("-", "−")}</span>`,
      )}
      ${vector.length > SHOWN ? html`<span>…</span>` : null}
    </div>
  </div>`;
}

/**
 * A vector's numbers as one sentence, for who cannot see the heat.
 *
 * @param {View} now
 * @param {Kind} kind
 * @param {number} position
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
