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

const PER_TOKEN_RULE = "bytes_per_token"; // lesson questions whose answers the figures would reveal
const AT_ONCE_RULE = "run_at_once";
const FIT_FORMULA = "num_running · max_model_len; ⌊pool_slots / max_model_len⌋";

const States = lazyPanel(() => import("./states.js"), "memory");
const AsModel = lazy(() => import("./as_model.js").then((found) => found.AsModel));

/** @typedef {NonNullable<import("../../core/provenance/types.js").Selection["figure"]>} FigureName */

export function Figures() {
  const header = log.value?.header;
  const now = state.value;
  if (!header || !now) return html`<section class="figures"></section>`;
  const perToken = header.kv_bytes_per_token;
  const memory = record.value?.memory ?? memoryFigures(now);
  const waste = memory.bytes_held - memory.bytes_used;
  const groups = now.block_groups;
  const total = capacityBytes(groups, memory.block_size);
  const hasSeveral = hasSiblings(groups, 0);
  const isHidden = hasSeveral || isOpenQuestion(PER_TOKEN_RULE); // bytes per token differ between groups
  const tokenBytes = isHidden ? "bytes per token" : `${grouped(perToken)} B`;
  const states = groups.some(isOfStates);
  const statesTerm = (/** @type {string} */ blocks) => (states ? `, + ${blocks} · bytes of a state` : "");
  /** @param {number} n */
  const ofBlocks = (n) => `${grouped(n)} / ${grouped(memory.num_blocks)}`;
  // a replay hides the button but reserves its space
  const isOwn = connection.value === "live" && ownIsShown.value;
  return html`<section class="figures" id="memory-figures">
    <div class="figures-head"><h3 class="panel-title"><${Term} id="kv_cache">${t("memory.title")}<//></h3><${Usage}
      memory=${memory} /></div>
    <${Bars} header=${header} now=${now} memory=${memory} total=${total} />
    <dl class="figure-list num">
      <${Figure} kind="used" name=${t("memory.used")} bytes=${memory.bytes_used}
        note=${t(hasSeveral ? "group.slots" : "memory.tokens", { n: grouped(memory.tokens_held) })}
        formula=${`tokens_held · ${tokenBytes}${statesTerm("state_blocks_held")}`} />
      <${Figure} kind="held" name=${t("memory.reserved")} bytes=${memory.bytes_held}
        note=${ofBlocks(memory.blocks_held)}
        formula=${`blocks_held · block_size · ${tokenBytes}${statesTerm("state_blocks_held")}`} />
      <${Figure}
        kind="waste"
        name=${html`<${Term} id="waste">${t("memory.waste")}<//>`}
        bytes=${waste}
        note=${memory.bytes_held ? percentText(waste / memory.bytes_held) : "–"}
        formula="reserved − used"
      />
      <${Figure} kind="cached" name=${t("memory.cached")} bytes=${memory.bytes_cached}
        note=${ofBlocks(memory.blocks_cached)}
        formula=${`blocks_cached · block_size · ${tokenBytes}${statesTerm("cached states")}`} />
      <${Figure} kind="free" name=${t("memory.free")} bytes=${total - memory.bytes_held - memory.bytes_cached}
        note=${ofBlocks(memory.blocks_free)} formula="pool − reserved − cached" />
    </dl>
    <${Spoiler} rule=${PER_TOKEN_RULE}><${Formula} header=${header} /><//>
    ${states ? html`<${States} header=${header} />` : null}
    ${isShared({ header }) || states ? null : html`<${AsModel} tokens=${memory.tokens_held} perToken=${perToken} />`}
    <button class="figure-bytes device-link" id="btn-device" aria-expanded=${modelsOpen.value} onClick=${toggleModels}
      style=${{ visibility: isOwn ? "visible" : "hidden" }}>${t("memory.device")}</button>
  </section>`;
}

/**
 * A row of figures. Clicking it selects the figure; the tooltip shows exact bytes.
 * @param {{kind: FigureName, name: Children, bytes: number, note: string, formula: string}} props
 */
function Figure({ kind, name, bytes, note, formula }) {
  const isSelected = selected.value?.figure === kind;
  return html`<div class=${`figure ${kind}${isSelected ? " selected" : ""}`}>
    <dt><i class=${`key ${kind}`}></i>${name}</dt>
    <dd><button class="figure-bytes" aria-pressed=${isSelected} disabled=${isOpenQuestion(PER_TOKEN_RULE)}
      onClick=${() => select({ figure: kind })}
      ...${tips(() => [t("memory.exact", { n: grouped(bytes) })])}>${bytesText(bytes)}</button></dd>
    <dd class="figure-note">${note}</dd>
    <dd class="figure-mark"><${Fidelity} kind="derived" formula=${formula} /></dd>
  </div>`;
}

/** @param {number} share */
const shortPercent = (share) => `${(100 * share).toFixed(share >= 0.0995 ? 0 : 1)}\u2009%`;

/**
 * Both usage figures. `blocks_held / num_blocks` counts cached blocks that no sequence holds as free.
 * @param {{memory: Memory}} props
 */
function Usage({ memory }) {
  /** @param {number} blocks */
  const share = (blocks) => shortPercent(blocks / memory.num_blocks);
  const sum = `(${memory.blocks_held} + ${memory.blocks_cached}) / ${memory.num_blocks}`;
  return html`<p class="usage num" id="usage">
    <span ...${tips([`blocks_held / num_blocks = ${memory.blocks_held} / ${memory.num_blocks}`])}
      tabindex="0">${t("memory.usage_held")} <b>${share(memory.blocks_held)}</b></span>
    <span ...${tips([`(blocks_held + blocks_cached) / num_blocks = ${sum}`])} tabindex="0"
      >${t("memory.usage_cached")} <b>${share(memory.blocks_held + memory.blocks_cached)}</b></span
    >
    <${Fidelity} kind="derived" formula="blocks_held / num_blocks; (blocks_held + blocks_cached) / num_blocks" />
  </p>`;
}

/**
 * Bars, to one scale, of the memory held by this run and by a contiguous reservation for the same requests. `total` is
 * the capacity of the pools in bytes.
 * @param {{header: Header, now: State, memory: Memory, total: number}} props
 */
function Bars({ header, now, memory, total }) {
  // with several instances the comparison is omitted
  const comparison = isShared({ header }) ? null : counterfactual(header, now);
  const isPaged = header.engine.strategy === "paged";
  const perToken = header.kv_bytes_per_token;
  const contiguous = comparison ? comparison.contiguous_slots * perToken : 0;
  const paged = isPaged ? memory.bytes_held : (comparison?.paged_slots ?? 0) * perToken;
  const figures = figuresByGroup(now);
  const allLayersBytes = bytesIfAllKept(now, figures);
  const scale = Math.max(total, contiguous, allLayersBytes ?? 0);
  /** @param {number} bytes */
  const width = (bytes) => ({ width: `${(100 * bytes) / scale}%` });
  const edge = { left: `${(100 * total) / scale}%` };
  const isSelected = selected.value?.figure === "contiguous";
  const pagedRow = html`<div class="memory-row">
    <span class="memory-name">${t(isPaged ? "memory.paged" : "memory.paged_in", {
      size: comparison?.block_size,
    })}</span>
    <div class="memory-bar" data-scale=${scale}>
      ${
        isPaged
          ? html`<i class="used" style=${width(memory.bytes_used)}></i><i class="waste"
            style=${width(memory.bytes_held - memory.bytes_used)}></i><i class="cached"
            style=${width(memory.bytes_cached)}></i>`
          : html`<i class="used" style=${width(memory.bytes_used)}></i><i class="waste"
            style=${width(Math.max(0, paged - memory.bytes_used))}></i>`
      }
      <b class="pool-edge" style=${edge}></b>
    </div>
    <span class="memory-value num">${bytesText(paged)}</span>
  </div>`;
  return html`<div class="memory-bars">
    ${pagedRow}
    ${
      allLayersBytes === null
        ? null
        : html`<div class="memory-row" id="all-kept" data-bytes=${allLayersBytes} tabindex="0"
          ...${tips(() => [reservedText(header, now, memory, allLayersBytes)])}>
          <span class="memory-name">${t("group.kept")} <${Fidelity} kind="derived"
            formula="blocks_held · block_size · Σ bytes per token" /></span>
          <div class="memory-bar"><i class="waste" style=${width(allLayersBytes)}></i><b class="pool-edge"
            style=${edge}></b></div>
          <span class="memory-value num">${bytesText(allLayersBytes)}</span>
        </div>`
    }
    ${
      comparison
        ? html`<button class="memory-row" id="contiguous" aria-pressed=${isSelected}
          aria-description=${t("memory.contiguous_label")} onClick=${() => select({ figure: "contiguous" })}>
          <span class="memory-name">${t("memory.contiguous")}</span>
          <span class="memory-bar">
            <i class="used" style=${width(Math.min(comparison.computed_slots * perToken, contiguous))}></i
            ><i class="waste" style=${width(Math.max(0, contiguous - comparison.computed_slots * perToken))}></i><b
              class="pool-edge" style=${edge}></b>
          </span>
          <span class="memory-value num">${bytesText(contiguous)}</span>
        </button>`
        : null
    }
    ${
      comparison
        ? html`<${Spoiler} rule=${AT_ONCE_RULE}><p class="hint memory-fit num" id="contiguous-fit">${fitText(
            comparison,
          )} <${Fidelity} kind="derived" formula=${FIT_FORMULA} /></p><//>`
        : null
    }
  </div>`;
}

/**
 * Text about the memory that would be held if every layer had full attention.
 * @param {Header} header @param {State} now @param {Memory} memory
 * @param {number} bytes bytes
 */
function reservedText(header, now, memory, bytes) {
  return t("group.kept.tip", {
    held: bytes / (memory.block_size * header.kv_bytes_per_token),
    layers: layersText(now.block_groups[0].layers),
    size: memory.block_size,
    token: grouped(header.kv_bytes_per_token),
    bytes: grouped(bytes),
    saved: grouped(bytes - memory.bytes_held),
  });
}

/** @param {NonNullable<ReturnType<typeof counterfactual>>} comparison */
function fitText(comparison) {
  const n = comparison.requests.length;
  if (n === 0) return t("memory.fit_none", { each: grouped(comparison.slots_each), fit: comparison.fit });
  return t(comparison.unfit ? "memory.unfit" : "memory.fit", {
    n,
    each: grouped(comparison.slots_each),
    unfit: comparison.unfit,
    fit: comparison.fit,
  });
}
