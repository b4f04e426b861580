// The bytes of a token as a formula, with symbols and with this model's numbers.

import { kvTerms } from "../../core/metrics.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { grouped, t } from "../../tell/words.js";

/** @typedef {import("../../kit/html.js").Children} Children */

/**
 * 2 · L · Hkv · D · bytes, with the numbers of this model; (D + Dv) where values are of another width, + scale where
 * vectors have one.
 *
 * @param {{header: import("../../core/trace.js").Header}} props
 */
export function Formula({ header }) {
  const k = kvTerms(header);
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
