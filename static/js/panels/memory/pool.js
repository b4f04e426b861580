// The physical pool: a map of every block, with its slots if they are large enough.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { t } from "../../i18n/words.js";
import { registerAnchor } from "../../kit/anchors.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { Swatch, themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { pointIn } from "../../kit/measure.js";
import { Term } from "../../kit/term.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { phase } from "../../state/playhead.js";
import { connected, hovered, select, selected, shownSeq, state } from "../../state/store.js";
import { GroupTitles } from "./pool_groups.js";
import { poolLayout } from "./pool_layout.js";
import { paintPool } from "./pool_paint.js";
import { placesOf, reads, scene, watchMotions } from "./pool_scene.js";
import { describeBlock, describeSlot, targetOf } from "./pool_words.js";

/** @import {State} from "../../state/store.js" */
/** @import {Layout} from "./pool_geometry.js" */

const MAX_BUTTONS = 256; // a larger pool has a single button, which the arrow keys move

/**
 * The current layout, for overlays that draw lines to blocks; null before the first measurement.
 * @type {{layout: Layout | null}}
 */
export const onScreen = { layout: null };

export function Pool() {
  const [size, setSize] = useState({ width: 0, height: 0 });
  const scrollBox = useRef(/** @type {HTMLElement | null} */ (null));
  const now = state.value;
  const layout = now && size.width ? poolLayout(now.block_groups, now.block_size, size.width, size.height) : null;
  const layoutRef = useRef(layout);
  layoutRef.current = onScreen.layout = layout;
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
      const context = prepare(canvas, width, Math.max(1, layoutRef.current?.height ?? 1));
      if (layoutRef.current) paintPool(context, layoutRef.current);
    },
  );
  useEffect(() => {
    const box = scrollBox.current;
    if (!box) return undefined;
    const measure = () => setSize({ width: box.clientWidth, height: box.clientHeight });
    const sizes = new ResizeObserver(measure);
    sizes.observe(box);
    measure();
    const stop = registerAnchor("slot", (block, offset) => {
      const shown = layoutRef.current;
      const [frame, corner] = [box.getBoundingClientRect(), ref.current?.getBoundingClientRect()];
      if (!shown || !corner) return null;
      const slot = shown.level === "slots" && offset !== null ? shown.slotAt(block, offset) : shown.blockAt(block);
      const y = corner.top + slot.y;
      return y < frame.top || y > frame.bottom ? null : { ...slot, x: corner.left + slot.x, y };
    });
    return () => (stop(), sizes.disconnect());
  }, []);
  return html`<div class="pool" data-level=${layout?.level}>
    <div class="pool-scroll" ref=${scrollBox}>
      <div
        class="pool-window" data-fades
        ref=${ref}
        style=${{ height: `${layout?.height ?? 0}px` }}
        role="group"
        data-arrows
        aria-label=${now ? t("pool.label", { n: now.blocks.length, size: now.block_size }) : t("pool.title")}
        onPointerMove=${/** @param {PointerEvent} event */ (event) => hover(event, layout)}
        onPointerLeave=${() => ((hovered.value = null), hideTip())}
        onClick=${/** @param {MouseEvent} event */ (event) => selectHit(event, layout)}
      >
        <canvas aria-hidden="true"></canvas>
        ${layout?.titles.length ? html`<${GroupTitles} now=${now} titles=${layout.titles} />` : null}
        ${layout ? html`<${Buttons} now=${now} layout=${layout} />` : null}
      </div>
    </div>
  </div>`;
}

export function PoolTitle() {
  const now = state.value;
  return html`<h3 class="panel-title pool-title">
    <span><${Term} id="block">${t("pool.title")}<//> <${Fidelity} kind="captured" /></span>
    ${now ? html`<${Queued} now=${now} />` : null}
    ${now ? html`<small class="num">${t("pool.size", { n: now.blocks.length, size: now.block_size })}</small>` : null}
  </h3>`;
}

const MAX_QUEUED = 4; // waiting sequences that are named

/** Numbers of running and waiting sequences, shown while a sequence waits. @param {{now: State}} props */
function Queued({ now: { running, waiting } }) {
  if (!waiting.length) return null;
  return html`<small class="num pool-queued" id="pool-queued" data-running=${running.length}
    data-waiting=${waiting.length}>${t("pool.queued", { running: running.length, waiting: waiting.length })}${waiting
      .slice(0, MAX_QUEUED)
      .map((id) => html` <span key=${id}><${Swatch} id=${id} />${id}</span>`)}</small>`;
}

/**
 * Invisible, focusable buttons with names, for keyboards and screen readers.
 * @param {{now: State, layout: Layout}} props
 */
function Buttons({ now, layout }) {
  const [cursor, setCursor] = useState(0);
  const places = placesOf(now.free_queues);
  const current = Math.min(cursor, now.blocks.length - 1);
  const shown = now.blocks.length <= MAX_BUTTONS ? now.blocks : [now.blocks[current]];
  return shown.map(
    (block) =>
      html`<${BlockButton} key=${shown.length === 1 ? "cursor" : block.block_id} block=${block} layout=${layout}
        lines=${describeBlock(now, block, places)} current=${block.block_id === current} onMove=${setCursor} />`,
  );
}

/**
 * Button of a block. `lines` is its description.
 * @param {{
 *   block: State["blocks"][number], layout: Layout, lines: string[], current: boolean, onMove: (id: number) => void,
 * }} props
 */
function BlockButton({ block, layout, lines, current, onMove }) {
  const id = block.block_id;
  const { x, y, width, height } = layout.blockAt(id);
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
      const button = /** @type {HTMLElement | null} */ (group?.querySelector(`[data-block="${next}"]`) ?? null);
      button?.focus();
      if (button) hovered.value = { block: next };
    });
  };
  /** @param {FocusEvent} event */
  const onFocus = (event) => {
    const button = /** @type {Element} */ (event.currentTarget);
    onMove(id);
    hovered.value = { block: id };
    if (button.matches(":focus-visible")) tipAt(...topCentre(button), lines);
  };
  return html`<button
    class="block-button"
    data-block=${id}
    aria-label=${lines.join("; ")}
    aria-pressed=${selected.value?.block === id}
    tabindex=${current ? 0 : -1}
    style=${{ left: `${x - 3}px`, top: `${y - 2}px`, width: `${width + 6}px`, height: `${height + 4}px` }}
    onFocus=${onFocus}
    onBlur=${() => ((hovered.value = null), hideTip())}
    onKeyDown=${move}
  ></button>`;
}

/** Centre of the upper edge. @param {Element} element @returns {[number, number]} */
function topCentre(element) {
  const box = element.getBoundingClientRect();
  return [box.left + box.width / 2, box.top];
}

/** @param {PointerEvent} event @param {Layout | null} layout */
function hover(event, layout) {
  const now = state.value;
  const hit = hitOf(event, layout);
  if (!hit || !now) return (hovered.value = null), hideTip();
  hovered.value = targetOf(hit.block, hit.offset);
  const block = now.blocks[hit.block];
  const lines = describeBlock(now, block, placesOf(now.free_queues));
  if (hit.offset !== null) lines.push(describeSlot(now, block, hit.offset));
  tipAt(event.clientX, event.clientY, lines);
}

/** @param {MouseEvent} event @param {Layout | null} layout */
function selectHit(event, layout) {
  const hit = hitOf(event, layout);
  if (hit) select(targetOf(hit.block, hit.offset));
}

/** @param {MouseEvent} event @param {Layout | null} layout */
function hitOf(event, layout) {
  if (!layout) return null;
  const { x, y } = pointIn(event, /** @type {HTMLElement} */ (event.currentTarget));
  return layout.hit(x, y);
}
