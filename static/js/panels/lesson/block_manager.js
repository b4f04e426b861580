// The block manager's desk: operations, free queue and block tables. A block is dragged, or tapped and then placed by a
// second tap.

import { signal } from "../../../vendor/signals/signals.js";
import { t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { applyMoves, moveOf, TOOLS, tapResult } from "./block_moves.js";
import { draggable, dragged, Ghost } from "./drag.js";

/** @import {Signal} from "../../../vendor/signals/signals.js" */
/** @import {BlockMove} from "../../core/wire.js" */
/** @import {Draft, Held, Kind, Target} from "./block_moves.js" */

const MAX_HEAD = 5; // first blocks of the free queue, always shown; later ones are shown only if they have a hash

/** @type {Signal<Kind>} */
const tool = signal("allocate");
/** @type {Signal<Held | null>} */
const heldBlock = signal(null);

/**
 * @param {{
 *   state: import("../../state/store.js").State, moves: BlockMove[], onMove: (move: BlockMove) => void,
 * }} props
 */
export function BlockManager({ state, moves, onMove }) {
  const draft = applyMoves(state, moves);
  /** @param {BlockMove | null} move */
  const addMove = (move) => {
    if (!move) return;
    heldBlock.value = null;
    onMove(move);
  };
  /** @param {Held} one */
  const tap = (one) => {
    const found = tapResult(tool.value, heldBlock.value, one);
    if (found && "kind" in found) addMove(found);
    else heldBlock.value = found;
  };
  /** @param {number} seq */
  const placeIn = (seq) => {
    if (heldBlock.value) addMove(moveOf(tool.value, heldBlock.value, { kind: "table", seq, block: null }));
  };
  const chipProps = { draft, size: state.block_size, tap, drop: addMove };
  const shownIndices = draft.queue.map((_, i) => i).filter((i) => i < MAX_HEAD || draft.hashed[draft.queue[i]]);
  return html`<div class="desk">
    <div class="desk-tools" role="radiogroup" aria-label=${t("lesson.work.tools")} data-arrows>${TOOLS.map(
      (name) => html`<button key=${name} class="desk-tool" role="radio" aria-checked=${tool.value === name}
        data-drop="tool" data-tool=${name} tabindex=${tool.value === name ? 0 : -1} onClick=${() => chooseTool(name)}
        onKeyDown=${onToolKey}>${t(`lesson.work.tool.${name}`)}</button>`,
    )}</div>
    <p class="desk-hint" role="status">${
      heldBlock.value && tool.value !== "copy"
        ? t("lesson.work.held", { block: heldBlock.value.block })
        : t(`lesson.work.hint.${tool.value}`)
    }</p>
    <div class="desk-row" data-drop="queue">
      <span class="desk-name">${t("lesson.work.queue")}</span>
      <span class="desk-chips">${shownIndices.map(
        (i, at) => html`${at && i > shownIndices[at - 1] + 1 ? html`<span class="desk-gap">…</span>` : null}<${Chip}
          key=${draft.queue[i]} ...${chipProps} block=${draft.queue[i]} from="queue" head=${i === 0} />`,
      )}${shownIndices.at(-1) !== draft.queue.length - 1 ? html`<span class="desk-gap">…</span>` : null}</span>
    </div>
    ${[...draft.tables].map(
      ([seq, table]) => html`<div class="desk-row" key=${seq} data-drop="table" data-seq=${seq}>
        <button class="desk-name" disabled=${!heldBlock.value || tool.value === "copy"} onClick=${() => placeIn(seq)}
          aria-label=${t("lesson.work.into", { seq })}><${Swatch} id=${seq} /> ${seq} ◂</button>
        <span class="desk-chips">${table.map(
          (block, i) => html`<${Chip} key=${i} ...${chipProps} block=${block} from=${seq} head=${false} />`,
        )}</span>
      </div>`,
    )}
    <${Ghost} kind="desk-chip num" />
  </div>`;
}

/** @param {Kind} name */
function chooseTool(name) {
  tool.value = name;
  heldBlock.value = null;
}

/** Choose a tool with the arrow keys. @param {KeyboardEvent} event */
function onToolKey(event) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  chooseTool(TOOLS[(TOOLS.indexOf(tool.value) + by + TOOLS.length) % TOOLS.length]);
  const button = /** @type {Element} */ (event.currentTarget).parentElement?.querySelector(
    `[data-tool="${tool.value}"]`,
  );
  /** @type {HTMLElement | null} */ (button)?.focus();
}

/**
 * A block: its id, whether it has a hash, its fill level and its reference count.
 * @param {{
 *   draft: Draft, size: number, tap: (one: Held) => void, drop: (move: BlockMove | null) => void, block: number,
 *   from: number | "queue", head: boolean,
 * }} props
 */
function Chip({ draft, size, tap, drop, block, from, head }) {
  const one = { block, from };
  const refs = draft.refs[block];
  const isHeld = heldBlock.value?.block === block && heldBlock.value.from === from;
  const words = [
    t("lesson.work.block", { n: block }),
    head ? t("lesson.work.head") : null,
    draft.hashed[block] ? t("lesson.work.hashed") : null,
    from === "queue" ? null : t("lesson.work.filled", { n: draft.filled[block], size }),
    refs > 1 ? t("lesson.work.refs", { n: refs }) : null,
  ];
  /** @param {Element | null} under */
  const onDrop = (under) => {
    const target = targetOf(under);
    drop(target && moveOf(tool.value, one, target));
  };
  return html`<button class="desk-chip num" data-drop="chip" data-block=${block} data-head=${head} data-held=${isHeld}
    aria-label=${words.filter(Boolean).join(", ")} aria-pressed=${isHeld} onClick=${() => dragged.value || tap(one)}
    ...${draggable(String(block), onDrop)}>
    ${head ? "▸" : ""}${block}${draft.hashed[block] ? html`<sup>#</sup>` : null}${
      refs > 1 ? html`<small>×${refs}</small>` : null
    }<i style=${{ width: `${(100 * draft.filled[block]) / size}%` }}></i></button>`;
}

/** Return the drop target at the element under the pointer. @param {Element | null} under @returns {Target | null} */
function targetOf(under) {
  const tools = /** @type {HTMLElement | null} */ (under?.closest("[data-drop=tool]") ?? null);
  if (tools) return { kind: "tool", tool: /** @type {Kind} */ (tools.dataset.tool) };
  const row = /** @type {HTMLElement | null} */ (under?.closest("[data-drop=queue], [data-drop=table]") ?? null);
  if (!row) return null;
  if (row.dataset.drop === "queue") return { kind: "queue" };
  const chip = /** @type {HTMLElement | null} */ (under?.closest("[data-drop=chip]") ?? null);
  return { kind: "table", seq: Number(row.dataset.seq), block: chip ? Number(chip.dataset.block) : null };
}
