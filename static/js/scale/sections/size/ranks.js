// Drawing of a tensor-parallel group: the query heads that each GPU computes, and the KV heads that it stores.

import { bytesText, grouped, t } from "../../../i18n/words.js";
import { Fidelity } from "../../../kit/fidelity.js";
import { html } from "../../../kit/html.js";

/**
 * As defined in `engine/accounting/ranks.py`.
 *
 * @typedef {[first: number, count: number]} Heads
 * @typedef {{kind: string, num_layers: number, num_heads: number, copies: number, held: Heads[] | null}} KindRanks
 * @typedef {{queries: Heads[], kinds: KindRanks[]}} RankHeads
 */

const MAX_CELLS = 32; // KV heads; more are not drawn individually

/** @param {{ranks: RankHeads, token: number | undefined}} props `token`: bytes per token on each GPU */
export function Ranks({ ranks, token }) {
  const { queries, kinds } = ranks;
  const gpus = queries.length || (kinds[0]?.held?.length ?? kinds[0]?.copies ?? 1);
  return html`<h3>${t("scale.size.ranks")} <${Fidelity} kind="derived" formula="⌈Hkv / tp⌉" /></h3>
    <p class="hint">${t(gpus > 1 ? "scale.size.ranks.hint" : "scale.size.ranks.one")}</p>
    <div class="scale-ranks" id="scale-ranks">
      ${Array.from({ length: gpus }, (_, rank) => html`<${Gpu} key=${rank} rank=${rank} ranks=${ranks} />`)}
    </div>
    ${kinds.map(({ kind, copies }) =>
      copies > 1
        ? html`<p key=${kind} class="hint">${t("scale.size.ranks.copies", { kind: kindText(kind), copies })}</p>`
        : null,
    )}
    ${token ? html`<p class="hint">${t("scale.size.ranks.token", { bytes: bytesText(token) })}</p>` : null}`;
}

/** @param {{rank: number, ranks: RankHeads}} props */
function Gpu({ rank, ranks: { queries, kinds } }) {
  const own = queries[rank] && t("scale.size.ranks.queries", span(queries[rank]));
  return html`<section class="scale-rank" aria-label=${t("scale.size.ranks.gpu", { rank })}>
    <b>${t("scale.size.ranks.gpu", { rank })}</b>
    ${own ? html`<p><i class="scale-head query"></i> ${own}</p>` : null}
    ${kinds.map((kind) => html`<${HeldHeads} key=${kind.kind} rank=${rank} kind=${kind} />`)}
  </section>`;
}

/** @param {{rank: number, kind: KindRanks}} props */
function HeldHeads({ rank, kind: { kind, num_layers, num_heads, copies, held } }) {
  const layers = t("scale.size.ranks.layers", { layers: num_layers, kind: kindText(kind) });
  if (!held) return html`<p><i class="scale-head latent"></i> ${t("scale.size.ranks.latent")} ${layers}</p>`;
  const [first, count] = held[rank];
  const cells = Array.from({ length: num_heads }, (_, head) => head >= first && head < first + count);
  return html`<p>${t("scale.size.ranks.kept", span(held[rank]))} ${layers}</p>
    ${
      num_heads > MAX_CELLS
        ? null
        : html`<p class="scale-heads" aria-hidden="true">
            ${cells.map(
              (own, head) =>
                html`<i key=${head} class="scale-head kv" data-own=${own} data-copy=${own && copies > 1}></i>`,
            )}
          </p>`
    }`;
}

/** @param {string} kind */
const kindText = (kind) => t(`scale.size.kind.${kind}`);

/** @param {Heads} heads */
const span = ([first, count]) => ({
  heads: count > 1 ? `${grouped(first)}–${grouped(first + count - 1)}` : grouped(first),
  count,
});
