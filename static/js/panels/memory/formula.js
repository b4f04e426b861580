// Bytes per token of a model's cache, as a formula with its numbers.

import { kvTerms } from "../../core/metrics.js";
import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";

/** @import {KvTerms} from "../../core/metrics.js" */
/** @import {Header} from "../../core/trace.js" */
/** @import {Children} from "../../kit/html.js" */

/**
 * 2 · L · Hkv · D · bytes with the numbers of this model. (D + Dv) replaces 2 · D if K and V differ in width; scale is
 * added for vectors with scales.
 * @param {{header: Header}} props
 */
export function Formula({ header }) {
  const terms = kvTerms(header);
  if (terms.latent_dim) return html`<${LatentFormula} terms=${terms} />`;
  if (terms.kinds.length > 1) return html`<${MixedFormula} terms=${terms} />`;
  const same = terms.head_dim === terms.v_head_dim;
  const times = html`<mo>·</mo>`;
  /** @type {(text: string, sub?: string) => Children} */
  const symbol = (text, sub) => (sub ? html`<msub><mi>${text}</mi><mi>${sub}</mi></msub>` : html`<mi>${text}</mi>`);
  /** @param {Children[]} parts */
  const sum = (...parts) =>
    html`<mrow><mo>(</mo>${parts.map((part, i) => html`${i ? html`<mo>+</mo>` : null}${part}`)}<mo>)</mo></mrow>`;
  /** @type {(d: Children, dv: Children) => Children} */
  const width = (d, dv) => (same ? d : sum(d, dv));
  /** @param {Children} scale */
  const scales = (scale) => (same ? scale : html`<mn>2</mn>${times}${scale}`);
  /** @type {(elements: Children, scale: Children) => Children} */
  const vectors = (elements, scale) => (terms.scale_bytes ? sum(elements, scales(scale)) : elements);
  /** @param {number} n */
  const number = (n) => html`<mn>${grouped(n)}</mn>`;
  const two = same ? html`<mn>2</mn>${times}` : null;
  const symbols = vectors(
    html`${width(symbol("D"), symbol("D", "v"))}${times}<mtext>bytes</mtext>`,
    html`<mtext>scale</mtext>`,
  );
  const numbers = vectors(
    html`${width(number(terms.head_dim), number(terms.v_head_dim))}${times}${number(terms.element_bytes)}`,
    number(terms.scale_bytes),
  );
  const widthText = same ? "D" : "(D + Dv)";
  const vector = terms.scale_bytes ? `(${widthText} · bytes + ${same ? "" : "2 · "}scale)` : `${widthText} · bytes`;
  const plain = `${same ? "2 · " : ""}L · Hkv · ${vector}`;
  return html`<p class="formula" aria-label=${t("memory.formula")}>
    <math lang="en">
      <mrow>${two}${symbol("L")}${times}${symbol("H", "kv")}${times}${symbols}</mrow>
    </math>
    <math lang="en">
      <mrow
        ><mo>=</mo>${two}${number(terms.num_layers)}${times}${number(terms.num_kv_heads)}${times}${numbers}<mo>=</mo
        >${number(terms.bytes_per_token)}<mspace width="0.2em" /><mtext>B</mtext></mrow
      >
    </math>
    <span class="formula-name"><${Fidelity} kind="derived" formula=${plain} /></span>
  </p>`;
}

const MIXED = "Σ L · Hkv · ((D + Dv) · bytes + 2 · scale)";

/** Formula for layers of several shapes. @param {{terms: KvTerms}} props */
function MixedFormula({ terms }) {
  const parts = terms.kinds.map(({ num_layers, num_kv_heads, head_dim, v_head_dim }) => {
    const bytes = (head_dim + v_head_dim) * terms.element_bytes + 2 * terms.scale_bytes;
    return html`<mn>${grouped(num_layers)}</mn><mo>·</mo><mn>${grouped(num_kv_heads)}</mn><mo>·</mo><mn>${grouped(
      bytes,
    )}</mn>`;
  });
  return html`<p class="formula" aria-label=${t("memory.formula")}>
    <math lang="en"><mrow>${parts.map((part, i) => html`${i ? html`<mo>+</mo>` : null}${part}`)}<mo>=</mo><mn>${grouped(
      terms.bytes_per_token,
    )}</mn><mspace width="0.2em" /><mtext>B</mtext></mrow></math>
    <span class="formula-name"><${Fidelity} kind="derived" formula=${MIXED} /></span>
  </p>`;
}

/**
 * Formula for layers that cache a latent vector for all heads (MLA): L · d · bytes, + scale if the vector has one. The
 * size of the expanded keys and values is shown for comparison.
 * @param {{terms: KvTerms}} props
 */
function LatentFormula({ terms }) {
  const times = html`<mo>·</mo>`;
  const scaled = terms.scale_bytes > 0;
  const formula = scaled ? "L · (d · bytes + scale)" : "L · d · bytes";
  /** @param {number} n */
  const number = (n) => html`<mn>${grouped(n)}</mn>`;
  /** @type {(vector: Children, scale: Children) => Children} */
  const withScale = (vector, scale) =>
    scaled ? html`<mrow><mo>(</mo>${vector}<mo>+</mo>${scale}<mo>)</mo></mrow>` : vector;
  return html`<p class="formula" aria-label=${t("memory.formula.latent")}>
    <math lang="en">
      <mrow><mi>L</mi>${times}${withScale(
        html`<mi>d</mi>${times}<mtext>bytes</mtext>`,
        html`<mtext>scale</mtext>`,
      )}</mrow>
    </math>
    <math lang="en">
      <mrow
        ><mo>=</mo>${number(terms.num_layers)}${times}${withScale(
          html`${number(terms.latent_dim)}${times}${number(terms.element_bytes)}`,
          number(terms.scale_bytes),
        )}<mo>=</mo>${number(terms.bytes_per_token)}<mspace width="0.2em" /><mtext>B</mtext></mrow
      >
    </math>
    <span class="formula-name"><${Fidelity} kind="derived" formula=${formula} /></span>
    <span class="hint" id="memory-expanded">${t("memory.expanded", { bytes: grouped(terms.expanded_bytes) })}
      <${Fidelity} kind="derived" formula="L · Hkv · (D + Dv) · bytes" /></span>
  </p>`;
}
