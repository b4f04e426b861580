// Row of the prefix tree: depth, text, one cell per block, holders, last use.

import { grouped, langOf, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { hideTip, showTip } from "../../kit/tooltip.js";
import { connected, hovered, log, select, selected } from "../../state/store.js";
import { blockIds, evictionPlace, hitsOf, idsText, lastHeldIn, ownersIn, piecesOf, rowLines } from "./row_facts.js";

/** @import {Row} from "../../core/prefix_branches.js" */
/** @import {Node} from "../../core/prefix_tree.js" */
/** @import {State} from "../../state/store.js" */

const INDENT = 14; // px per level
const MAX_INDENT = 12; // levels; deeper rows show their level as a number
const MAX_CELLS = 48; // of a row; in longer rows a cell represents several blocks
const MAX_SWATCHES = 3;

/**
 * @param {{
 *   row: Row, at: number, high: number, state: State, hits: number, isEnd: boolean, hitPath: ReadonlySet<string>,
 *   focusable: boolean, fold: (row: Row, open: boolean) => void, activate: (row: Row) => void,
 * }} props `at`: index in the list; `hits`: number of the row's blocks on the `hitPath` of a prompt, which ends here
 *   if `isEnd`
 */
export function TreeRow({ row, at, high, state, hits, isEnd, hitPath, focusable, fold, activate }) {
  const now = log.value;
  if (!now) return null;
  const { nodes, level, open, single } = row;
  const [{ kind, findable }] = nodes;
  const lines = () => rowLines(now, state, row, hits);
  const pieces = piecesOf(state, nodes);
  const text = pieces.map((piece) => piece.text).join("");
  const isPinned = blockIds(nodes).includes(selected.value?.block ?? -1);
  const isPointed = blockIds(nodes).some((id) => connected.value?.blocks.has(id));
  /** @param {Event} event */
  const onPoint = (event) => {
    const element = /** @type {HTMLElement} */ (event.target);
    const block = element.closest("[data-block]")?.getAttribute("data-block") ?? nodes[0].blocks[0]?.block_id;
    hovered.value = block === undefined ? null : { block: Number(block) };
    if (event.type === "focus") return; // keyboard users keep the rows above visible and hear the description
    showTip(/** @type {Element} */ (event.currentTarget), [...lines(), keysText(row)]);
  };
  /** @param {Event} event */
  const click = (event) => {
    const element = /** @type {HTMLElement} */ (event.target);
    const block = element.closest("[data-block]")?.getAttribute("data-block");
    if (block) return select({ block: Number(block) });
    if (element.closest("[data-fold]") && open !== null) return fold(row, !open);
    return activate(row);
  };
  const classes = [
    "prefix-row",
    kind,
    ...(single ? ["single"] : []),
    ...(hits ? ["hit"] : []),
    ...(isEnd ? ["end"] : []),
  ];
  if (isPinned) classes.push("shown");
  if (isPointed) classes.push("pointed");
  if (!findable) classes.push("unfindable");
  return html`<div role="treeitem" class=${classes.join(" ")} data-row=${at} tabindex=${focusable ? 0 : -1}
    aria-level=${level} aria-posinset=${row.place} aria-setsize=${row.of} aria-expanded=${open ?? undefined}
    aria-selected=${isPinned} aria-description=${lines().join("; ")}
    style=${{ top: `${at * high}px`, height: `${high}px`, "--deep": `${INDENT * Math.min(level - 1, MAX_INDENT)}px` }}
    onClick=${click} onPointerOver=${onPoint} onFocus=${onPoint}
    onBlur=${() => ((hovered.value = null), hideTip())}>
    <span class="prefix-text" lang=${langOf(text)}><i class="prefix-fold" data-fold aria-hidden="true">${
      open === null ? "" : open ? "▾" : "▸"
    }</i>${
      level > MAX_INDENT + 1 ? html`<small>${level}</small>` : null
    }${pieces.map((piece) => html`<span class=${piece.prompt ? "prompt" : "generated"}>${piece.text}</span>`)}</span>
    <span class="prefix-cells" aria-hidden="true"><${Cells} nodes=${nodes} hitPath=${hitPath} state=${state} /></span>
    <span class="prefix-ids" aria-hidden="true">${idsText(nodes)}</span>
    <span class="prefix-count" aria-hidden="true">${grouped(nodes.length * state.block_size)}</span>
    <span class="prefix-held" aria-hidden="true"><${Holders} state=${state} nodes=${nodes} /></span>
    <span class="prefix-hits" aria-hidden="true">${hitsOf(nodes) ? grouped(hitsOf(nodes)) : "·"}</span>
    <span class="prefix-last" aria-hidden="true">${lastUse(now, state, nodes)}</span>
  </div>`;
}

/** Hint about the keys of a row. @param {Row} row */
const keysText = ({ nodes }) => (nodes.length > 1 ? t("prefix.opens") : null);

/** @param {import("../../core/log.js").TraceLog} now @param {State} state @param {Node[]} nodes */
function lastUse(now, state, nodes) {
  const [{ kind }] = nodes;
  if (kind !== "reusable") return kind === "held" ? t("prefix.in_use") : "–";
  const until = lastHeldIn(now, state, nodes);
  return until < 0 ? "–" : t("prefix.record", { record: grouped(until + 1) });
}

/** Holders of a row, or its place in the eviction order. @param {{state: State, nodes: Node[]}} props */
function Holders({ state, nodes }) {
  const [{ kind, findable }] = nodes;
  if (kind === "gone") return t("prefix.gone");
  if (kind === "reusable")
    return findable ? t("prefix.reusable", { place: grouped(evictionPlace(state, nodes) ?? 0) }) : t("prefix.lost");
  const owners = ownersIn(state, nodes);
  return html`${owners.slice(0, MAX_SWATCHES).map((id) => html`<${Swatch} key=${id} id=${id} />`)}${
    owners.length === 1 ? t("sequence.name", { id: owners[0] }) : `× ${nodes[0].refs}`
  }`;
}

/**
 * Cells of a row, one per block, in the colours of its holders, or dashed if there are none.
 * @param {{nodes: Node[], hitPath: ReadonlySet<string>, state: State}} props
 */
function Cells({ nodes, hitPath, state }) {
  const step = Math.ceil(nodes.length / MAX_CELLS);
  const shown = nodes.filter((_, i) => i % step === 0);
  return shown.map((node) => {
    const owners = ownersIn(state, [node]).slice(0, MAX_SWATCHES);
    return html`<i key=${node.hash} class=${`prefix-cell ${node.kind}${hitPath.has(node.hash) ? " hit" : ""}`}
      data-block=${node.blocks[0]?.block_id}>${owners.map((id) => html`<b class=${`seq-${id % 8}`}></b>`)}</i>`;
  });
}
