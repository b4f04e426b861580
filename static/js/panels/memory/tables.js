// Block tables of each sequence, one per block group: logical to physical block. Below them is the CPU store with
// swapped-out blocks.

import { hasSiblings, isOfStates, RELEASED } from "../../core/groups.js";
import { instanceName, ownGroups } from "../../core/instances.js";
import { allLayers, groupName, keysText, layersText, shortKeys } from "../../i18n/groups.js";
import { t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { moveFocusInRow } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { connected, hovered, layer, log, select, selected, shownSeq, state } from "../../state/store.js";
import { arriving, placeKey } from "./pool_scene.js";

/** @import {State} from "../../state/store.js" */

/** @typedef {State["block_groups"][number]} Group */

export function Tables() {
  const now = state.value;
  const all = [...(now?.sequences.values() ?? [])];
  const rows = all.filter((seq) => seq.block_tables.some((table) => table.length > 0) || seq.seq_id === shownSeq.value);
  rows.sort((a, b) => a.instance - b.instance); // a stable sort
  return html`<section class="tables">
    <h3 class="panel-title"><${Term} id="block_table">${t("tables.title")}<//> <${Fidelity} kind="captured" /></h3>
    ${
      !now || rows.length === 0
        ? html`<p class="hint">${t("tables.empty")}</p>`
        : html`<div class="table-rows" id="table-rows">
          ${rows.map((seq, i) => [
            seq.instance === rows[i - 1]?.instance ? null : html`<${Title} key=${seq.instance} at=${seq.instance} />`,
            ...ownGroups(now.block_groups, seq.instance).map(
              (group) => html`<${TableRow} key=${`${seq.seq_id}/${group}`}
            now=${now} seq=${seq} table=${seq.block_tables[group]} at=${group} />`,
            ),
          ])}
          <${CpuStore} blocks=${now.cpu_blocks} />
        </div>`
    }
  </section>`;
}

/** Name of an instance above its sequences. @param {{at: number}} props */
function Title({ at }) {
  const name = log.value ? instanceName(log.value.header, at) : "";
  return name ? html`<p class="table-instance">${name}</p>` : null;
}

/**
 * Table of `seq` in block group `at`. With several groups, each table names its layers.
 * @param {{now: State, seq: import("../../state/store.js").Sequence, table: number[], at: number}} props
 */
function TableRow({ now, seq, table, at }) {
  const id = seq.seq_id;
  const name = t("sequence.name", { id });
  const groups = now.block_groups;
  const group = hasSiblings(groups, at) ? groups[at] : null;
  const weight = group && !group.layers.includes(layer.value) ? " other" : "";
  const onPoint = () => (hovered.value = { seq: id });
  const onLeave = () => (hovered.value = null);
  return html`<div class=${`table-row${id === shownSeq.value ? " shown" : ""}${group ? " grouped" : ""}${weight}`}
    data-seq=${id} data-group=${at}>
    <button
      class="table-name num"
      aria-pressed=${selected.value?.seq === id && selected.value.position === undefined}
      aria-label=${
        group
          ? `${id} ${shortLayers(group)}: ${t("group.table", { name, group: groupName(group) })}`
          : t("tables.sequence", { name })
      }
      title=${group ? `${allLayers(group)} · ${keysText(group)}` : undefined}
      onClick=${() => select({ seq: id })}
      onPointerEnter=${onPoint}
      onPointerLeave=${onLeave}
      onFocus=${onPoint}
      onBlur=${onLeave}
    >
      <${Swatch} id=${id} />${id}${group ? html` <small>${shortLayers(group)}</small>` : null}
    </button>
    <span class="entries num" data-arrows>
      ${table.length === 0 ? html`<span class="none">${t("tables.none")}</span>` : null}
      ${table.map(
        (block, logical) => html`<${Entry} key=${logical} now=${now} seq=${id} name=${name} block=${block}
        logical=${logical} group=${group} />`,
      )}
    </span>
  </div>`;
}

const MAX_NAMED = 4; // layers are named individually up to this number

/** @param {Group} group */
function shortLayers(group) {
  const { layers } = group;
  if (isOfStates(group)) return shortKeys(group);
  return layers.length > MAX_NAMED ? t("group.many", { n: layers.length }) : `L${layers.join(",")}`;
}

/**
 * Entry `logical` of a sequence's table; `group` is null if there is only one.
 * @param {{now: State, seq: number, name: string, block: number, logical: number, group: Group | null}} props
 */
function Entry({ now, seq, name, block, logical, group }) {
  if (block === RELEASED) {
    const label = group
      ? t("group.entry_released", { name, logical, layers: layersText(group.layers) })
      : t("tables.released", { name, logical });
    return html`<button tabindex=${logical === 0 ? 0 : -1} class="entry" aria-disabled="true" aria-label=${label}
      title=${label} onKeyDown=${moveFocusInRow}>
      <small>${logical}</small>–
    </button>`;
  }
  const isPointed = connected.value?.blocks.has(block);
  const shared = now.blocks[block].ref_count > 1;
  const isArriving = arriving.value.has(placeKey(seq, block));
  const onPoint = () => (hovered.value = { block });
  const onLeave = () => (hovered.value = null);
  return html`<button
    tabindex=${logical === 0 ? 0 : -1}
    class=${`entry${isPointed ? " pointed" : ""}${shared ? " shared" : ""}${isArriving ? " arriving" : ""}`}
    data-to=${block}
    aria-description=${t("tables.entry", { name, logical, block })}
    onClick=${() => select({ block })}
    onPointerEnter=${onPoint}
    onPointerLeave=${onLeave}
    onFocus=${onPoint}
    onBlur=${onLeave}
    onKeyDown=${moveFocusInRow}
  >
    <small>${logical}</small>${block}
  </button>`;
}

/** Swapped-out blocks in CPU memory; null if the run has no CPU blocks. @param {{blocks: State["cpu_blocks"]}} props */
function CpuStore({ blocks }) {
  if (!blocks.length) return null;
  const store = blocks.flatMap(({ seq_id: seq, ...rest }) => (seq === null ? [] : [{ ...rest, seq_id: seq }]));
  return html`<div class="table-row cpu" id="cpu-store">
    <span class="table-name"><${Term} id="swap">${t("tables.cpu")}<//></span>
    <span class="entries num">
      <span class="none">${t("tables.cpu_held", { held: store.length, n: blocks.length })}</span>
      ${store.map(
        (held) => html`<button class="entry" data-cpu=${held.cpu_block_id}
          aria-description=${t("tables.cpu_entry", { ...held, name: t("sequence.name", { id: held.seq_id }) })}
          onClick=${() => select({ seq: held.seq_id })}>
          <${Swatch} id=${held.seq_id} />${held.cpu_block_id}
        </button>`,
      )}
    </span>
  </div>`;
}
