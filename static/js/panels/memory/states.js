// Layers with recurrent states and layers with keys and values, and the bytes of both kinds by text length.

import { crossing } from "../../core/groups.js";
import { bytesText, grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Spoiler } from "../../kit/spoiler.js";
import { sequenceView } from "../../state/store.js";

/** @import {Header} from "../../core/trace.js" */

const [WIDE, HIGH] = [300, 48];
const MAX_LAYERS = 96; // layers are drawn individually up to this number

/** @param {{header: Header}} props */
export function Panel({ header }) {
  const { layer_kinds: kinds = [], state_bytes: state = 0 } = header.model;
  const at = crossing(header);
  const length = sequenceView.value?.numFilled ?? 0;
  const perToken = header.kv_bytes_per_token;
  const values = { length: grouped(length), state: bytesText(state), keys: bytesText(length * perToken) };
  return html`<div class="state-bytes num" id="state-bytes" data-crossing=${at?.tokens ?? ""}>
    ${
      kinds.length > MAX_LAYERS
        ? null
        : html`<p class="layer-kinds" aria-label=${t("memory.kinds.label")}>
      ${kinds.map((kind, i) => html`<i class=${`of-${kind}`} title=${t(`memory.kind.${kind}`, { layer: i })}>${i}</i>`)}
    </p>`
    }
    <p>${t("memory.states.now", values)} <${Fidelity} kind="derived"
      formula="tokens · bytes per token + bytes of a state" /></p>
    ${at ? html`<${Spoiler} rule="lighter_from"><${Chart} ...${{ at, length, state, perToken }} /><//>` : null}
  </div>`;
}

/**
 * Chart of the state's constant bytes, with K and V above them, and the bytes if all layers had keys as a dashed line.
 * Beyond the crossing, the state saves memory.
 * @param {{at: NonNullable<ReturnType<typeof crossing>>, length: number, state: number, perToken: number}} props
 */
function Chart({ at, length, state, perToken }) {
  const maxTokens = Math.max(2 * at.tokens, length);
  const top = Math.max(maxTokens * at.perToken, state + maxTokens * perToken);
  const x = (/** @type {number} */ tokens) => ((tokens * WIDE) / maxTokens).toFixed(1);
  const y = (/** @type {number} */ bytes) => (HIGH - (bytes * HIGH) / top).toFixed(1);
  const line = (/** @type {number} */ tokens) => `M${x(tokens)} 0V${HIGH}`;
  const values = { n: grouped(at.tokens), bytes: bytesText(at.tokens * at.perToken), most: grouped(maxTokens) };
  return html`<figure class="state-chart">
    <svg viewBox=${`0 0 ${WIDE} ${HIGH}`} preserveAspectRatio="none" role="img"
      aria-label=${t("memory.states.crossing", values)}>
      <path class="of-keys" d=${`M0 ${y(state)}L${WIDE} ${y(state + maxTokens * perToken)}V${y(state)}Z`} />
      <path class="of-state" d=${`M0 ${y(state)}H${WIDE}V${HIGH}H0Z`} />
      <path class="of-instead" d=${`M0 ${HIGH}L${WIDE} ${y(maxTokens * at.perToken)}`} />
      <path class="of-cross" d=${line(at.tokens)} />
      ${length ? html`<path class="of-here" d=${line(length)} />` : null}
    </svg>
    <figcaption>
      <span><i class="key of-state"></i>${t("memory.states.state")}</span>
      <span><i class="key of-keys"></i>${t("memory.states.keys")}</span>
      <span><i class="key of-instead"></i>${t("memory.states.instead")}</span>
      <span>${t("memory.states.crossing", values)} <${Fidelity} kind="derived"
        formula="bytes of a state / (layers with a state · bytes per token and layer)" /></span>
    </figcaption>
  </figure>`;
}
