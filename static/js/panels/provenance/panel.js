// The provenance panel: the chain of the pinned selection in detail. It replaces the left column while a selection is
// pinned.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { wordsOf } from "../../i18n/chain.js";
import { operationName } from "../../i18n/operations.js";
import { grouped, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Term } from "../../kit/term.js";
import { requestLayer } from "../../net/commands.js";
import { canGoBack, canGoForward, follow, goBack, goForward } from "../../state/selection.js";
import { drawnIndex, layer, log, provenance, selected, state } from "../../state/store.js";

/** @import {LifeEvent, LinkOf, Selection} from "../../core/provenance/types.js" */
/** @import {ChainLink} from "../../state/store.js" */

/** @type {Record<string, string>} */
const FORMULAS = {
  slot: "block_id · block_size + position mod block_size",
  bytes: "L · Hkv · (D + Dv) · bytes",
  contiguous: "num_running · max_model_len · bytes per token",
  figure: "slots · bytes per token",
  part: "slots · bytes per token",
};

const MAX_EVENTS = 40;

export function Panel() {
  const now = provenance.value;
  useEffect(() => fetchWeight(now), [now]);
  if (!now) return null;
  return html`<section class="region provenance" id="region-provenance" aria-labelledby="provenance-title">
    <header class="provenance-head">
      <h2 class="provenance-title"
        id="provenance-title">${t("chain.title")} <small>${t(`chain.of.${now.kind}`)}</small></h2>
      <button class="tool small" id="btn-chain-back" disabled=${!canGoBack.value} aria-label=${t("chain.back")}
        title=${t("chain.back")} onClick=${goBack}><${Icon} name="back" /></button>
      <button class="tool small" id="btn-chain-forward" disabled=${!canGoForward.value} aria-label=${t("chain.forward")}
        title=${t("chain.forward")} onClick=${goForward}><${Icon} name="forward" /></button>
      <button class="tool small" id="btn-chain-close" aria-label=${t("chain.close")} title=${t("chain.close")}
        onClick=${() => (selected.value = null)}><${Icon} name="close" /></button>
    </header>
    <ol class="provenance-links">
      ${now.links.map((link, i) => html`<${Link} key=${`${link.kind}${i}`} link=${link} />`)}
    </ol>
  </section>`;
}

/** @param {{link: ChainLink}} props */
function Link({ link }) {
  const words = wordsOf(link);
  const subject = link.kind === "part" ? html`<${Swatch} id=${link.seq} />${words.name}` : words.name;
  return html`<li class="provenance-link" data-kind=${link.kind}>
    <p class="provenance-name">
      ${words.term ? html`<${Term} id=${words.term}>${subject}<//>` : html`<span>${subject}</span>`}
      <${Fidelity} kind=${link.fidelity} formula=${FORMULAS[link.kind] ?? ""} />
      <span class="provenance-value num">${link.kind === "owners" ? null : words.value}</span>
    </p>
    ${words.lines.filter(Boolean).map((line) => html`<p class="provenance-line num">${line}</p>`)}
    ${link.kind === "owners" ? html`<${Owners} owners=${link.owners} />` : null}
    ${link.kind === "blocks" ? html`<${Blocks} link=${link} />` : null}
    ${link.kind === "contiguous" ? html`<${Requests} link=${link} />` : null}
    ${link.kind === "life" ? html`<${Life} events=${link.events} />` : html`<${Targets} link=${link} />`}
  </li>`;
}

/** Buttons for the record and the selection that a link of the chain refers to. @param {{link: ChainLink}} props */
function Targets({ link }) {
  const { go, select } = link;
  /**
   * @type {(to: Parameters<typeof follow>[0], text: string, label?: string) => import("../../kit/html.js").Children}
   */
  const way = (to, text, label) =>
    html`<button class="way" aria-label=${label} onClick=${() => follow(to)}>${text}</button>`;
  const buttons = [];
  if (go !== undefined)
    buttons.push(way({ go }, t("chain.record", { record: go + 1 }), t("chain.go", { record: go + 1 })));
  if (select && !isSelected(select)) buttons.push(way({ select }, nameOf(select)));
  return buttons.length ? html`<p class="ways num">${buttons}</p>` : null;
}

/** @param {Selection} target */
const isSelected = (target) =>
  Object.entries(target).every(([key, value]) => selected.value?.[/** @type {keyof Selection} */ (key)] === value) &&
  Object.keys(selected.value ?? {}).length === Object.keys(target).length;

/** @param {Selection} target */
function nameOf(target) {
  if (target.block !== undefined && target.offset !== undefined && target.offset !== null)
    return `${t("chain.slot")} ${target.block * (state.value?.block_size ?? 0) + target.offset}`;
  if (target.block !== undefined) return t("pool.block", { id: target.block });
  if (target.seq !== undefined) return t("sequence.name", { id: target.seq });
  if (target.figure !== undefined) return t("chain.of.figure");
  return operationName(log.value?.records[target.record ?? 0].ops?.[target.op ?? 0].type ?? "");
}

/** @param {{owners: import("../../core/provenance/types.js").Owner[]}} props */
function Owners({ owners }) {
  return html`<ul class="provenance-list num">
    ${owners.map(
      (owner) => html`<li>
        <${Swatch} id=${owner.seq} /><button class="way"
          onClick=${() => follow({ select: { seq: owner.seq } })}>${t("sequence.name", { id: owner.seq })}</button>
        [${owner.logical}]
        ${
          owner.how && owner.go !== undefined
            ? html`<span class="provenance-how">${operationName(owner.how)}</span>
              <button class="way"
                onClick=${() =>
                  follow({
                    go: owner.go,
                    select: { record: owner.go, op: owner.at },
                  })}>${t("chain.record", { record: owner.go + 1 })}</button>`
            : null
        }
      </li>`,
    )}
  </ul>`;
}

/** @param {{link: LinkOf<"blocks">}} props */
function Blocks({ link }) {
  return html`<p class="ways num">
    ${link.blocks.map(
      (block) => html`<button class=${link.shared.includes(block) ? "way shared" : "way"}
      onClick=${() => follow({ select: { block } })}>${block}</button>`,
    )}
  </p>`;
}

/** Each running request under the three reservation schemes. @param {{link: LinkOf<"contiguous">}} props */
function Requests({ link }) {
  if (!link.requests.length) return null;
  return html`<p class="hint">${t("chain.contiguous.columns")}</p>
    <ul class="reservations num">
      ${link.requests.map(
        (r, i) => html`<li class=${i >= link.fit ? "unfit" : ""}>
          <button class="way" onClick=${() => follow({ select: { seq: r.seq_id } })}><${Swatch} id=${r.seq_id}
            />${r.seq_id}</button>
          ${[r.computed, r.paged, r.limit, r.contiguous].map(
            (slots) => html`<span>${grouped(Number(slots.toFixed(1)))}</span>`,
          )}
        </li>`,
      )}
    </ul>`;
}

/** Slots filled by a write: " 3–5". @param {LifeEvent} event */
const slotsOf = ({ from, to }) => (from === undefined || to === undefined ? "" : ` ${from}–${to - 1}`);

/** Events, newest first. @param {{events: LifeEvent[]}} props */
function Life({ events }) {
  const shown = events.slice(-MAX_EVENTS).reverse();
  return html`<ul class="provenance-list life num">
    ${shown.map(
      (event) => html`<li>
        <button class="way"
          onClick=${() =>
            follow({
              go: event.record,
              select: { record: event.record, op: event.at },
            })}>${t("chain.record", { record: event.record + 1 })}</button>
        <span>${operationName(event.type)}${slotsOf(event)}</span>
        ${event.seq === undefined ? null : html`<span><${Swatch} id=${event.seq} />${event.seq}</span>`}
      </li>`,
    )}
  </ul>
  ${events.length > shown.length ? html`<p class="hint">+${events.length - shown.length}</p>` : null}`;
}

/** Fetch the attention row of a weight if it was not sent with its record. @param {{links: ChainLink[]} | null} now */
function fetchWeight(now) {
  const weight = now?.links.find((link) => link.kind === "weight");
  if (!log.value || !weight || weight.value !== null) return;
  const record = log.value.computedIn(weight.seq, weight.query, drawnIndex.peek());
  if (record >= 0 && log.value.captureMissing(record, layer.peek())) requestLayer(record, layer.peek());
}
