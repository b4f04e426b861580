// Cache tiers outside the pool, one row each, the fastest first. Blocks are loaded from them and stored to them.

import { bytesText, grouped, hasText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { tips } from "../../kit/tooltip.js";

/** @typedef {import("../../core/trace.js").TierFigures} Tier */

/** @param {{tiers: Tier[]}} props */
export function Panel({ tiers }) {
  return html`<ul class="tiers num" id="tiers" aria-label=${t("tiers.label")}>
    ${tiers.map((tier) => html`<${TierRow} key=${tier.medium} tier=${tier} />`)}
  </ul>`;
}

/** @param {{tier: Tier}} props */
function TierRow({ tier }) {
  const { medium, num_blocks: n, num_bytes: bytes, max_bytes: maxBytes } = tier;
  const exact = t("tiers.exact", { bytes: grouped(bytes), most: grouped(maxBytes) });
  return html`<li class="tier" data-medium=${medium}>
    <${Term} id="offload">${t(`tiers.${medium}`)}<//>
    <span class="tier-bar" aria-hidden="true"
      ><span style=${{ width: `${Math.min(100, (100 * bytes) / Math.max(1, maxBytes))}%` }}></span></span>
    <span class="tier-held" ...${tips([exact])}>${t("tiers.held", {
      n,
      held: bytesText(bytes),
      most: bytesText(maxBytes),
    })}</span>
    ${tier.num_dropped ? html`<${Dropped} tier=${tier} />` : null}
  </li>`;
}

/**
 * Number of blocks that could not be stored or read, with the last reason. Logs of later versions may have more
 * reasons.
 * @param {{tier: Tier}} props
 */
function Dropped({ tier: { num_dropped: n = 0, last_drop: why = "" } }) {
  const key = `tiers.why.${why}`;
  const text = t("tiers.dropped", { n, why: hasText(key) ? t(key) : why });
  return html`<span class="tier-dropped" tabindex="0" ...${tips([text])}>${text}</span>`;
}
