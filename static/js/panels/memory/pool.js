// The physical pool: a map of every block, slot by slot while they can be told apart.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { phase } from "../../state/moment.js";
import { connected, hovered, select, selected, shownSeq, state } from "../../state/store.js";
import { t } from "../../tell/words.js";
import { poolLayout } from "./pool_geometry.js";
import { GroupTitles } from "./pool_groups.js";
import { paintPool } from "./pool_paint.js";
import { placesOf, reads, scene, watchMotions } from "./pool_scene.js";
import { describeBlock, describeSlot, targetOf } from "./pool_words.js";

/**
 * @typedef {import("./pool_geometry.js").PoolLayout} PoolLayout
 * @typedef {import("./pool_words.js").Block} Block
 */

const MAX_BUTTONS = 256; // a larger pool has one button, which the arrow keys move

/**
 * The layout on screen, for those who draw to and from its blocks; null while there is none.
 *
 * @type {PoolLayout | null}
 */
export let shownLayout = null;

export function Pool() {
  const [size, setSize] = useState({ width: 0, height: 0 });
  const outer = useRef(/** @type {HTMLElement | null} */ (null));
  const now = state.value;
  const layout = now && size.width ? poolLayout(now.block_groups, now.block_size, size.width, size.height) : null;
  const latest = useRef(/** @type {PoolLayout | null} */ (null));
  latest.current = shownLayout = layout;
  const ref = usePainter(
    () => [
      scene.value,
      reads.value,
      connected.value,
      shownSeq.value,
      themeVersion.value,
      watchMotions(),
      phase("attend"),
    ],
    (box, { width }) => {
      const canvas = box.querySelector("canvas");
      if (!canvas) return;
      const context = prepare(canvas, width, Math.max(1, latest.current?.height ?? 1));
      if (latest.current) paintPool(context, latest.current);
    },
  );
  useEffect(() => {
    const element = outer.current;
    if (!element) return undefined;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    measure();
    return () => sizes.disconnect();
  }, []);
  /** @param {PointerEvent} event */
  const hoverHere = (event) => hover(event, layout);
  /** @param {MouseEvent} event */
  const pickHere = (event) => pick(event, layout);
  return html`<div class="pool" data-level=${layout?.level}>
    <div class="pool-scroll" ref=${outer}>
      <div
        class="pool-window" data-fades
        ref=${ref}
        style=${{ height: `${layout?.height ?? 0}px` }}
        role="group"
        data-arrows
        aria-label=${now ? t("pool.label", { n: now.blocks.length, size: now.block_size }) : t("pool.title")}
        onPointerMove=${hoverHere}
        onPointerLeave=${() => ((hovered.value = null), hideTip())}
        onClick=${pickHere}
      >
        <canvas aria-hidden="true"></canvas>
        ${layout?.titles.length ? html`<${GroupTitles} tops=${layout.titles} />` : null}
        ${layout ? html`<${Buttons} layout=${layout} />` : null}
      </div>
    </div>
  </div>`;
}

export function PoolTitle() {
  const now = state.value;
  return html`<h3 class="panel-title pool-title">
    <span><${Term} id="block">${t("pool.title")}<//> <${Fidelity} kind="captured" /></span>
    ${now ? html`<small class="num">${t("pool.size", { n: now.blocks.length, size: now.block_size })}</small>` : null}
  </h3>`;
}

/**
 * Invisible, focusable, named: the pool for keyboards and screen readers.
 *
 * @param {{layout: PoolLayout}} props
 */
function Buttons({ layout }) {
  const now = state.value;
  const [cursor, setCursor] = useState(0);
  if (!now) return null;
  const places = placesOf(now.free_queues);
  const at = Math.min(cursor, now.blocks.length - 1);
  const shown = now.blocks.length <= MAX_BUTTONS ? now.blocks : [now.blocks[at]];
  return shown.map(
    (/** @type {Block} */ block) =>
      html`<${BlockButton} key=${shown.length === 1 ? "cursor" : block.block_id} block=${block} layout=${layout}
        places=${places} current=${block.block_id === at} onMove=${setCursor} />`,
  );
}

/**
 * @param {{
 *   block: Block, layout: PoolLayout, places: Map<number, number>, current: boolean, onMove: (id: number) => void
 * }} props
 */
function BlockButton({ block, layout, places, current, onMove }) {
  const id = block.block_id;
  const { x, y, width, height } = layout.blockAt(id);
  const lines = describeBlock(block, places);
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return select({ block: id });
    }
    const next = layout.neighbour(id, event.key);
    if (next === null) return;
    event.preventDefault();
    onMove(next);
    const group = /** @type {Element} */ (event.currentTarget).parentElement;
    requestAnimationFrame(() => {
      /** @type {HTMLElement | null | undefined} */
      const button = group?.querySelector(`[data-block="${next}"]`);
      button?.focus();
      if (button) hovered.value = { block: next };
    });
  };
  /** @param {FocusEvent} event */
  const focus = (event) => {
    const button = /** @type {Element} */ (event.currentTarget);
    onMove(id);
    hovered.value = { block: id };
    if (button.matches(":focus-visible")) tipAt(...centre(button), lines);
  };
  return html`<button
    class="block-button"
    data-block=${id}
    aria-label=${lines.join("; ")}
    aria-pressed=${selected.value?.block === id}
    tabindex=${current ? 0 : -1}
    style=${{ left: `${x - 3}px`, top: `${y - 2}px`, width: `${width + 6}px`, height: `${height + 4}px` }}
    onFocus=${focus}
    onBlur=${() => ((hovered.value = null), hideTip())}
    onKeyDown=${move}
  ></button>`;
}

/**
 * @param {Element} element
 * @returns {[number, number]}
 */
function centre(element) {
  const box = element.getBoundingClientRect();
  return [box.left + box.width / 2, box.top];
}

/**
 * @param {PointerEvent} event
 * @param {PoolLayout | null} layout
 */
function hover(event, layout) {
  const hit = hitOf(event, layout);
  if (!hit || !state.value) return (hovered.value = null), hideTip();
  hovered.value = targetOf(hit.block, hit.offset);
  const block = state.value.blocks[hit.block];
  const lines = describeBlock(block, placesOf(state.value.free_queues));
  if (hit.offset !== null) lines.push(describeSlot(block, hit.offset));
  tipAt(event.clientX, event.clientY, lines);
}

/**
 * @param {MouseEvent} event
 * @param {PoolLayout | null} layout
 */
function pick(event, layout) {
  const hit = hitOf(event, layout);
  if (hit) select(targetOf(hit.block, hit.offset));
}

/**
 * @param {MouseEvent} event
 * @param {PoolLayout | null} layout
 */
function hitOf(event, layout) {
  if (!layout) return null;
  const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
  return layout.hit(event.clientX - box.left, event.clientY - box.top);
}
