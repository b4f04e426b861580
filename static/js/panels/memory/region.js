// The pool as a region of pieces and holes, for runs that allocate contiguously (strategy `first_fit`). With
// fragmentation a sequence may wait although enough blocks are free.

import { fragmentation, holesOf } from "../../core/state_tables.js";
import { t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { moveFocusInRow } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { tips } from "../../kit/tooltip.js";
import { hovered, record, select, selected, state } from "../../state/store.js";

/** @import {State} from "../../core/state_access.js" */

/**
 * A piece of sequence `seq`, of which `filled` blocks have K and V, or a hole (`seq` null).
 * @typedef {{block_id: number, num_blocks: number, seq: number | null, filled: number}} RegionSegment
 */

export function Region() {
  const now = state.value;
  if (!now) return html`<div class="region-map"></div>`;
  const parts = partsOf(now);
  const holes = allHoles(now);
  const { free, largest } = fragmentation(holes);
  const refused = record.value?.ops?.flatMap((op) =>
    op.type === "defer" && op.reason === "fragmented" ? [op] : [],
  )[0];
  const width = (/** @type {number} */ blocks) => ({ width: `${(100 * blocks) / now.blocks.length}%` });
  const text = refused
    ? t("region.needed", { needed: refused.needed, free: refused.num_free, largest: refused.available })
    : t("region.holes", { holes: holes.length, free, largest });
  return html`<div class="region-map" id="region-map" role="group" aria-label=${t("region.label", { said: text })}>
    <div class="region-bar" data-arrows>
      ${parts.map(
        (
          part,
          i,
        ) => html`<${PartView} key=${part.block_id} part=${part} first=${i === 0} style=${width(part.num_blocks)}
        size=${now.block_size} largest=${largest} />`,
      )}
    </div>
    <p class="region-said num">
      ${refused ? html`<i class="region-needed" style=${width(refused.needed)}></i>` : null}
      <${Term} id="external_fragmentation">${text}<//> <${Fidelity} kind="derived" formula=${t("region.formula")} />
    </p>
  </div>`;
}

/** Return the pieces and holes in order. @param {State} now @returns {RegionSegment[]} */
export function partsOf(now) {
  /** @type {RegionSegment[]} */
  const pieces = [...now.sequences.values()].flatMap((sequence) => {
    const table = sequence.block_tables.find(({ length }) => length > 0);
    if (!table) return [];
    const filled = sequence.num_computed_tokens / now.block_size;
    return [{ block_id: table[0], num_blocks: table.length, seq: sequence.seq_id, filled }];
  });
  const holes = allHoles(now).map((hole) => ({ ...hole, seq: null, filled: 0 }));
  return [...pieces, ...holes].sort((a, b) => a.block_id - b.block_id);
}

/** Return the holes of each instance's pool. @param {State} now */
const allHoles = (now) => now.block_groups.flatMap((group) => holesOf(now.blocks, group));

/** @param {{part: RegionSegment, first: boolean, style: {width: string}, size: number, largest: number}} props */
function PartView({ part, first, style, size, largest }) {
  const { block_id, num_blocks, seq, filled } = part;
  const values = { first: block_id, last: block_id + num_blocks - 1, n: num_blocks, slots: num_blocks * size };
  const line =
    seq === null
      ? t("region.hole", values)
      : t("region.piece", { ...values, name: t("sequence.name", { id: seq }), tokens: Math.round(filled * size) });
  const target = seq === null ? { block: block_id } : { seq };
  const kind = seq === null ? (num_blocks === largest ? "hole largest" : "hole") : "piece";
  const fill = { width: `${(100 * filled) / num_blocks}%` };
  const pressed = seq === null ? selected.value?.block === block_id : selected.value?.seq === seq;
  const { onPointerEnter, onPointerLeave, ...focused } = tips([line]);
  const onPoint = (/** @type {PointerEvent} */ event) => {
    hovered.value = target;
    onPointerEnter(event);
  };
  const onLeave = (/** @type {PointerEvent} */ event) => {
    hovered.value = null;
    onPointerLeave(event);
  };
  return html`<button
    class=${`region-part ${kind}`}
    style=${style}
    tabindex=${first ? 0 : -1}
    aria-label=${line}
    aria-pressed=${pressed}
    onClick=${() => select(target)}
    onPointerEnter=${onPoint}
    onPointerLeave=${onLeave}
    onKeyDown=${moveFocusInRow}
    ...${focused}
  >
    ${seq === null ? null : html`<i class=${`region-fill seq-${seq % 8}`} style=${fill}></i>`}
    <span class="num">${seq === null ? num_blocks : seq}</span>
  </button>`;
}
