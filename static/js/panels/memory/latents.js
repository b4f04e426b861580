// Bytes per token for layers that cache one latent vector for all heads (MLA), compared with keys and values.

import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";

/** @import {Children} from "../../kit/html.js" */

/**
 * L · d · bytes with the numbers of this model; + scale if a vector has one.
 * @param {{terms: import("../../core/metrics.js").KvTerms}} props
 */
export function LatentFormula({ terms: k }) {
  const times = html`<mo>·</mo>`;
  const scaled = k.scale_bytes > 0;
  const formula = scaled ? "L · (d · bytes + scale)" : "L · d · bytes";
  /** @param {number} n */
  const number = (n) => html`<mn>${grouped(n)}</mn>`;
  /** @type {(vector: Children, scale: Children) => any} */
  const kept = (vector, scale) =>
    scaled ? html`<mrow><mo>(</mo>${vector}<mo>+</mo>${scale}<mo>)</mo></mrow>` : vector;
  return html`<p class="formula" aria-label=${t("memory.formula.latent")}>
    <math lang="en">
      <mrow><mi>L</mi>${times}${kept(html`<mi>d</mi>${times}<mtext>bytes</mtext>`, html`<mtext>scale</mtext>`)}</mrow>
    </math>
    <math lang="en">
      <mrow
        ><mo>=</mo>${number(k.num_layers)}${times}${kept(
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
