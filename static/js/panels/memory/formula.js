// Bytes per token of a model's cache, as a formula with its numbers.

import { kvTerms } from "../../core/metrics.js";
import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";

/** @import {KvTerms} from "../../core/metrics.js" */
/** @import {Header} from "../../core/trace.js" */
/** @import {Children} from "../../kit/html.js" */

/**
 * 2 · L · Hkv · D · bytes with the numbers of this model; (D + Dv) if values have another width, + scale if vectors
 * have scales.
 * @param {{header: Header}} props
 */
export function Formula({ header }) {
  const k = kvTerms(header);
  if (k.latent_dim) return html`<${LatentFormula} terms=${k} />`;
  if (k.kinds.length > 1) return html`<${MixedFormula} terms=${k} />`;
  const same = k.head_dim === k.v_head_dim;
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
  const vectors = (elements, scale) => (k.scale_bytes ? sum(elements, scales(scale)) : elements);
  /** @param {number} n */
  const number = (n) => html`<mn>${grouped(n)}</mn>`;
  const two = same ? html`<mn>2</mn>${times}` : null;
  const symbols = vectors(
    html`${width(symbol("D"), symbol("D", "v"))}${times}<mtext>bytes</mtext>`,
    html`<mtext>scale</mtext>`,
  );
  const numbers = vectors(
    html`${width(number(k.head_dim), number(k.v_head_dim))}${times}${number(k.element_bytes)}`,
    number(k.scale_bytes),
  );
  const wide = same ? "D" : "(D + Dv)";
  const vector = k.scale_bytes ? `(${wide} · bytes + ${same ? "" : "2 · "}scale)` : `${wide} · bytes`;
  const plain = `${same ? "2 · " : ""}L · Hkv · ${vector}`;
  return html`<p class="formula" aria-label=${t("memory.formula")}>
    <math lang="en">
      <mrow>${two}${symbol("L")}${times}${symbol("H", "kv")}${times}${symbols}</mrow>
    </math>
    <math lang="en">
      <mrow
        ><mo>=</mo>${two}${number(k.num_layers)}${times}${number(k.num_kv_heads)}${times}${numbers}<mo>=</mo
        >${number(k.bytes_per_token)}<mspace width="0.2em" /><mtext>B</mtext></mrow
      >
    </math>
    <span class="formula-name"><${Fidelity} kind="derived" formula=${plain} /></span>
  </p>`;
}

const MIXED = "Σ L · Hkv · ((D + Dv) · bytes + 2 · scale)";

/** Formula for layers of several shapes. @param {{terms: KvTerms}} props */
function MixedFormula({ terms: k }) {
  const parts = k.kinds.map(({ num_layers, num_kv_heads, head_dim, v_head_dim }) => {
    const bytes = (head_dim + v_head_dim) * k.element_bytes + 2 * k.scale_bytes;
    return html`<mn>${grouped(num_layers)}</mn><mo>·</mo><mn>${grouped(num_kv_heads)}</mn><mo>·</mo><mn>${grouped(
      bytes,
    )}</mn>`;
  });
  return html`<p class="formula" aria-label=${t("memory.formula")}>
    <math lang="en"><mrow>${parts.map((part, i) => html`${i ? html`<mo>+</mo>` : null}${part}`)}<mo>=</mo><mn>${grouped(
      k.bytes_per_token,
    )}</mn><mspace width="0.2em" /><mtext>B</mtext></mrow></math>
    <span class="formula-name"><${Fidelity} kind="derived" formula=${MIXED} /></span>
  </p>`;
}

/**
 * Formula for layers that cache one latent vector for all heads (MLA), compared with keys and values: L · d · bytes;
 * + scale if a vector has one.
 * @param {{terms: KvTerms}} props
 */
function LatentFormula({ terms: k }) {
  const times = html`<mo>·</mo>`;
  const scaled = k.scale_bytes > 0;
  const formula = scaled ? "L · (d · bytes + scale)" : "L · d · bytes";
  /** @param {number} n */
  const number = (n) => html`<mn>${grouped(n)}</mn>`;
  /** @type {(vector: Children, scale: Children) => Children} */
  const sized = (vector, scale) =>
    scaled ? html`<mrow><mo>(</mo>${vector}<mo>+</mo>${scale}<mo>)</mo></mrow>` : vector;
  return html`<p class="formula" aria-label=${t("memory.formula.latent")}>
    <math lang="en">
      <mrow><mi>L</mi>${times}${sized(html`<mi>d</mi>${times}<mtext>bytes</mtext>`, html`<mtext>scale</mtext>`)}</mrow>
    </math>
    <math lang="en">
      <mrow
        ><mo>=</mo>${number(k.num_layers)}${times}${sized(
          html`${number(k.latent_dim)}${times}${number(k.element_bytes)}`,
          number(k.scale_bytes),
        )}<mo>=</mo>${number(k.bytes_per_token)}<mspace width="0.2em" /><mtext>B</mtext></mrow
      >
    </math>
    <span class="formula-name"><${Fidelity} kind="derived" formula=${formula} /></span>
    <span class="hint" id="memory-expanded">${t("memory.expanded", { bytes: grouped(k.expanded_bytes) })}
      <${Fidelity} kind="derived" formula="L · Hkv · (D + Dv) · bytes" /></span>
  </p>`;
}
