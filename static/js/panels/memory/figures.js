// KV memory in numbers: used, reserved, wasted, cached, free; both usage figures; paged compared with contiguous
// reservation.

import { modelsOpen, toggleModels } from "../../control/models.js";
import { counterfactual } from "../../core/counterfactual.js";
import { bytesIfAllKept, capacityBytes, figuresByGroup, hasSiblings, isOfStates } from "../../core/groups.js";
import { isShared } from "../../core/request_parts.js";
import { memoryFigures } from "../../core/state.js";
import { layersText } from "../../i18n/groups.js";
import { bytesText, grouped, percentText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { lazy, lazyPanel } from "../../kit/lazy.js";
import { Spoiler } from "../../kit/spoiler.js";
import { Term } from "../../kit/term.js";
import { tips } from "../../kit/tooltip.js";
import { isOpenQuestion } from "../../state/lessons.js";
import { connection, log, ownIsShown, record, select, selected, state } from "../../state/store.js";
import { Formula } from "./formula.js";

/** @import {Header, Memory} from "../../core/trace.js" */
/** @import {Children} from "../../kit/html.js" */
/** @import {State} from "../../state/store.js" */

const PER_TOKEN = "bytes_per_token"; // exercises whose answers the figures would reveal
const AT_ONCE = "run_at_once";
const FIT = "num_running · max_model_len; ⌊pool_slots / max_model_len⌋";

const States = lazyPanel(() => import("./states.js"), "memory");
const AsModel = lazy(() => import("./as_model.js").then((found) => found.AsModel));

/** @typedef {NonNullable<import("../../core/provenance/types.js").Selection["figure"]>} FigureName */

export function Figures() {
  const header = log.value?.header;
  const now = state.value;
  if (!header || !now) return html`<section class="figures"></section>`;
  const perToken = header.kv_bytes_per_token;
  const m = record.value?.memory ?? memoryFigures(now);
  const waste = m.bytes_held - m.bytes_used;
  const groups = now.block_groups;
  const total = capacityBytes(groups, m.block_size);
  const several = hasSiblings(groups, 0);
  const isHidden = several || isOpenQuestion(PER_TOKEN); // layers of each group have their own bytes per token
  const token = isHidden ? "bytes per token" : `${grouped(perToken)} B`;
  const states = groups.some(isOfStates);
  const plus = (/** @type {string} */ blocks) => (states ? `, + ${blocks} · bytes of a state` : "");
  /** @param {number} n */
  const of = (n) => `${grouped(n)} / ${grouped(m.num_blocks)}`;
  // a replay reserves the button's space, so that it looks like the live run
  const isOwn = connection.value === "live" && ownIsShown.value;
  return html`<section class="figures" id="memory-figures">
    <div class="figures-head"><h3 class="panel-title"><${Term} id="kv_cache">${t("memory.title")}<//></h3><${Usage}
      m=${m} /></div>
    <${Bars} header=${header} now=${now} m=${m} total=${total} />
    <dl class="figure-list num">
      <${Figure} kind="used" name=${t("memory.used")} bytes=${m.bytes_used}
        note=${t(several ? "group.slots" : "memory.tokens", { n: grouped(m.tokens_held) })}
        formula=${`tokens_held · ${token}${plus("state_blocks_held")}`} />
      <${Figure} kind="held" name=${t("memory.reserved")} bytes=${m.bytes_held} note=${of(m.blocks_held)}
        formula=${`blocks_held · block_size · ${token}${plus("state_blocks_held")}`} />
      <${Figure}
        kind="waste"
        name=${html`<${Term} id="waste">${t("memory.waste")}<//>`}
        bytes=${waste}
        note=${m.bytes_held ? percentText(waste / m.bytes_held) : "–"}
        formula="reserved − used"
      />
      <${Figure} kind="cached" name=${t("memory.cached")} bytes=${m.bytes_cached} note=${of(m.blocks_cached)}
        formula=${`blocks_cached · block_size · ${token}${plus("cached states")}`} />
      <${Figure} kind="free" name=${t("memory.free")} bytes=${total - m.bytes_held - m.bytes_cached}
        note=${of(m.blocks_free)} formula="pool − reserved − cached" />
    </dl>
    <${Spoiler} rule=${PER_TOKEN}><${Formula} header=${header} /><//>
    ${states ? html`<${States} header=${header} />` : null}
    ${isShared({ header }) || states ? null : html`<${AsModel} tokens=${m.tokens_held} perToken=${perToken} />`}
    <button class="figure-bytes device-link" id="btn-device" aria-expanded=${modelsOpen.value} onClick=${toggleModels}
      style=${{ visibility: isOwn ? "visible" : "hidden" }}>${t("memory.device")}</button>
  </section>`;
}

/**
 * A row of figures. Clicking it selects the figure; the tooltip shows exact bytes.
 * @param {{kind: FigureName, name: Children, bytes: number, note: string, formula: string}} props
 */
function Figure({ kind, name, bytes, note, formula }) {
  const held = selected.value?.figure === kind;
  return html`<div class=${`figure ${kind}${held ? " selected" : ""}`}>
    <dt><i class=${`key ${kind}`}></i>${name}</dt>
    <dd><button class="figure-bytes" aria-pressed=${held} disabled=${isOpenQuestion(PER_TOKEN)}
      onClick=${() => select({ figure: kind })}
      ...${tips(() => [t("memory.exact", { n: grouped(bytes) })])}>${bytesText(bytes)}</button></dd>
    <dd class="figure-note">${note}</dd>
    <dd class="figure-mark"><${Fidelity} kind="derived" formula=${formula} /></dd>
  </div>`;
}

/** @param {number} share */
const shortPercent = (share) => `${(100 * share).toFixed(share >= 0.0995 ? 0 : 1)}\u2009%`;

/**
 * Both usage figures. Cached blocks that no sequence holds count as free although they are not empty.
 * @param {{m: Memory}} props
 */
function Usage({ m }) {
  /** @param {number} blocks */
  const share = (blocks) => shortPercent(blocks / m.num_blocks);
  const sum = `(${m.blocks_held} + ${m.blocks_cached}) / ${m.num_blocks}`;
  return html`<p class="usage num" id="usage">
    <span ...${tips([`blocks_held / num_blocks = ${m.blocks_held} / ${m.num_blocks}`])}
      tabindex="0">${t("memory.usage_held")} <b>${share(m.blocks_held)}</b></span>
    <span ...${tips([`(blocks_held + blocks_cached) / num_blocks = ${sum}`])} tabindex="0"
      >${t("memory.usage_cached")} <b>${share(m.blocks_held + m.blocks_cached)}</b></span
    >
    <${Fidelity} kind="derived" formula="blocks_held / num_blocks; (blocks_held + blocks_cached) / num_blocks" />
  </p>`;
}

/**
 * Bars of the memory that this run holds and of a contiguous reservation for the same requests, to one scale. `total`:
 * capacity of the pools in bytes.
 * @param {{header: Header, now: State, m: Memory, total: number}} props
 */
function Bars({ header, now, m, total }) {
  // with several instances the comparison is omitted
  const other = isShared({ header }) ? null : counterfactual(header, now);
  const pages = header.engine.strategy === "paged";
  const perToken = header.kv_bytes_per_token;
  const contiguous = other ? other.contiguous_slots * perToken : 0;
  const paged = pages ? m.bytes_held : (other?.paged_slots ?? 0) * perToken;
  const figures = figuresByGroup(now);
  const allKept = bytesIfAllKept(now, figures);
  const scale = Math.max(total, contiguous, allKept ?? 0);
  /** @param {number} bytes */
  const width = (bytes) => ({ width: `${(100 * bytes) / scale}%` });
  const edge = { left: `${(100 * total) / scale}%` };
  const held = selected.value?.figure === "contiguous";
  const paging = html`<div class="memory-row">
    <span class="memory-name">${t(pages ? "memory.paged" : "memory.paged_in", { size: other?.block_size })}</span>
    <div class="memory-bar" data-scale=${scale}>
      ${
        pages
          ? html`<i class="used" style=${width(m.bytes_used)}></i><i class="waste"
            style=${width(m.bytes_held - m.bytes_used)}></i><i class="cached" style=${width(m.bytes_cached)}></i>`
          : html`<i class="used" style=${width(m.bytes_used)}></i><i class="waste"
            style=${width(Math.max(0, paged - m.bytes_used))}></i>`
      }
      <b class="pool-edge" style=${edge}></b>
    </div>
    <span class="memory-value num">${bytesText(paged)}</span>
  </div>`;
  return html`<div class="memory-bars">
    ${paging}
    ${
      allKept === null
        ? null
        : html`<div class="memory-row" id="all-kept" data-bytes=${allKept} tabindex="0"
          ...${tips(() => [reservedText(header, now, m, allKept)])}>
          <span class="memory-name">${t("group.kept")} <${Fidelity} kind="derived"
            formula="blocks_held · block_size · Σ bytes per token" /></span>
          <div class="memory-bar"><i class="waste" style=${width(allKept)}></i><b class="pool-edge"
            style=${edge}></b></div>
          <span class="memory-value num">${bytesText(allKept)}</span>
        </div>`
    }
    ${
      other
        ? html`<button class="memory-row" id="contiguous" aria-pressed=${held}
          aria-description=${t("memory.contiguous_label")} onClick=${() => select({ figure: "contiguous" })}>
          <span class="memory-name">${t("memory.contiguous")}</span>
          <span class="memory-bar">
            <i class="used" style=${width(Math.min(other.computed_slots * perToken, contiguous))}></i
            ><i class="waste" style=${width(Math.max(0, contiguous - other.computed_slots * perToken))}></i><b
              class="pool-edge" style=${edge}></b>
          </span>
          <span class="memory-value num">${bytesText(contiguous)}</span>
        </button>`
        : null
    }
    ${
      other
        ? html`<${Spoiler} rule=${AT_ONCE}><p class="hint memory-fit num" id="contiguous-fit">${fitText(
            other,
          )} <${Fidelity} kind="derived" formula=${FIT} /></p><//>`
        : null
    }
  </div>`;
}

/**
 * Text about the blocks that every layer would hold, as the layers with full attention do.
 * @param {Header} header
 * @param {State} now
 * @param {Memory} m
 * @param {number} bytes bytes
 */
function reservedText(header, now, m, bytes) {
  return t("group.kept.tip", {
    held: bytes / (m.block_size * header.kv_bytes_per_token),
    layers: layersText(now.block_groups[0].layers),
    size: m.block_size,
    token: grouped(header.kv_bytes_per_token),
    bytes: grouped(bytes),
    saved: grouped(bytes - m.bytes_held),
  });
}

/** @param {NonNullable<ReturnType<typeof counterfactual>>} other */
function fitText(other) {
  const n = other.requests.length;
  if (n === 0) return t("memory.fit_none", { each: grouped(other.slots_each), fit: other.fit });
  return t(other.unfit ? "memory.unfit" : "memory.fit", {
    n,
    each: grouped(other.slots_each),
    unfit: other.unfit,
    fit: other.fit,
  });
}
