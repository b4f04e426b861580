// Minimap of the whole sequence: prompt and generated tokens, block edges, the attention row as heat, and a draggable
// window. It is the token row's scroll bar.

import { useRef } from "../../../vendor/preact/hooks.js";
import { t } from "../../i18n/words.js";
import { contextOf, prepare, roundRect, usePainter } from "../../kit/canvas.js";
import { colours, sequentialAt, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { phase, phasesNow } from "../../state/stage_playhead.js";
import { pointed, sequenceView } from "../../state/store.js";
import { miniature, pooledWeights } from "./geometry.js";

/** @import {Signal} from "../../../vendor/signals/signals.js" */
/** @import {Columns, Miniature} from "./geometry.js" */

const LINE_HEIGHT = 3; // px
const MIN_EDGE_DISTANCE = 4; // px; closer block edges are not drawn
const ARROW_STEP = 64; // px

/** @typedef {{offset: Signal<number>, width: number, show: (to: number) => void}} Viewport */

/**
 * The minimap. `offset` and `follows` are signals: the token row's scroll offset, and whether it follows its newest
 * column. `width` is that of the token row's window. `show(offset)` scrolls.
 * @param {Viewport & {layout: Columns | null, follows: Signal<boolean>}} props
 */
export function Minimap({ layout, offset, width, follows, show }) {
  const layoutRef = useRef(layout);
  layoutRef.current = layout;
  const ref = usePainter(
    () => [sequenceView.value, pointed.value, themeVersion.value, phase("attend"), offset.value],
    (box, size) => {
      const canvas = box.querySelector("canvas");
      if (canvas) paint(prepare(canvas, size.width, size.height), layoutRef.current, offset.peek(), width, size);
    },
  );
  const scrolls = Boolean(layout && layout.extent > width);
  const [first, last] = layout ? layout.visible(offset.value, offset.value + width) : [0, 0];
  /** @param {PointerEvent} event */
  const onPress = (event) => layout && scrolls && drag(event, layout, { offset, width, show });
  /** @param {KeyboardEvent} event */
  const onKey = (event) => layout && scrollByKey(event, { offset, width, show });
  return html`<div class="minimap">
    <div
      class="minimap-track"
      ref=${ref}
      role="scrollbar"
      aria-controls="token-row-scroll"
      aria-orientation="horizontal"
      aria-label=${t("stage.minimap")}
      aria-valuemin="0"
      aria-valuemax=${Math.max(0, (layout?.count ?? 1) - 1)}
      aria-valuenow=${Math.min(first, Math.max(0, (layout?.count ?? 1) - 1))}
      aria-valuetext=${
        layout?.count ? t("stage.minimap.range", { from: first, to: Math.max(first, last - 1), n: layout.count }) : ""
      }
      tabindex=${scrolls ? 0 : -1}
      data-arrows
      data-scrolls=${scrolls}
      onPointerDown=${onPress}
      onKeyDown=${onKey}
    >
      <canvas aria-hidden="true"></canvas>
    </div>
    <button class="minimap-newest" aria-label=${t("stage.newest")} title=${t("stage.newest")}
      hidden=${!scrolls || follows.value} onClick=${() => show(Infinity)}>⇥</button>
  </div>`;
}

/**
 * Return the px of the minimap that the token row's window covers: [left, right].
 * @param {Columns} layout @param {number} offset @param {number} width
 * @param {Miniature} mini
 */
function frameOf(layout, offset, width, mini) {
  const [first, last] = [
    layout.at(offset) ?? layout.visible(offset, offset)[0],
    layout.visible(offset, offset + width)[1],
  ];
  return [mini.x(first), mini.x(Math.min(last, layout.count))];
}

/**
 * @param {CanvasRenderingContext2D} c @param {Columns | null} layout @param {number} offset
 * @param {number} width
 * @param {{width: number, height: number}} size
 */
function paint(c, layout, offset, width, size) {
  const now = sequenceView.value;
  const palette = colours();
  const base = size.height - LINE_HEIGHT;
  c.fillStyle = palette["line-2"];
  c.fillRect(0, base, size.width, LINE_HEIGHT);
  if (!now || !layout?.count) return;
  const mini = miniature(layout.count, layout.expected, size.width);
  const prompt = mini.x(Math.min(now.seq.num_prompt_tokens, layout.count));
  c.fillStyle = palette.prompt;
  c.fillRect(0, base, prompt, LINE_HEIGHT);
  c.fillStyle = palette.generated;
  c.fillRect(prompt, base, mini.x(layout.count) - prompt, LINE_HEIGHT);
  const { attend } = phasesNow();
  if (now.attention && attend > 0) {
    c.globalAlpha = attend;
    c.imageSmoothingEnabled = false;
    c.drawImage(heat(now.attention, mini, Math.ceil(size.width)), 0, 3, Math.ceil(size.width), base - 5);
    c.globalAlpha = 1;
  }
  if (layout.perBlock && layout.perBlock * mini.unit >= MIN_EDGE_DISTANCE) {
    c.fillStyle = palette.paper;
    for (let p = layout.perBlock; p < layout.count; p += layout.perBlock)
      c.fillRect(Math.round(mini.x(p)) - 0.5, base, 1, LINE_HEIGHT);
  }
  const position = pointed.value?.position;
  if (position !== undefined && position < layout.count) {
    c.fillStyle = palette.focus;
    c.fillRect(mini.x(position), 0, Math.max(2, mini.unit), size.height);
  }
  if (layout.extent <= width) return;
  const [left, right] = frameOf(layout, offset, width, mini);
  c.strokeStyle = palette["ink-2"];
  c.lineWidth = 1.5;
  roundRect(c, left + 0.75, 0.75, Math.max(8, right - left) - 1.5, size.height - 1.5, 3);
  c.stroke();
}

/** @type {WeakMap<object, {key: string, canvas: HTMLCanvasElement}>} by attention row */
const heats = new WeakMap();

/**
 * Return the attention row as an image of height 1 px.
 * @param {{keyStart: number, weights: Float32Array, max: number}} row
 * @param {Miniature} mini @param {number} bins
 */
function heat(row, mini, bins) {
  const key = `${mini.places}/${bins}/${themeVersion.peek()}`;
  const cached = heats.get(row);
  if (cached?.key === key) return cached.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = bins;
  canvas.height = 1;
  const c = contextOf(canvas);
  pooledWeights(row, mini, bins).forEach((weight, bin) => {
    if (weight === 0) return;
    c.fillStyle = sequentialAt(colours().sequential, weight / (row.max || 1));
    c.fillRect(bin, 0, 1, 1);
  });
  heats.set(row, { key, canvas });
  return canvas;
}

/**
 * Drag the window. A press beside it first moves it there.
 * @param {PointerEvent} event @param {Columns} layout @param {Viewport} viewport
 */
function drag(event, layout, { offset, width, show }) {
  const track = /** @type {HTMLElement} */ (event.currentTarget);
  const box = track.getBoundingClientRect();
  const mini = miniature(layout.count, layout.expected, box.width);
  const [left, right] = frameOf(layout, offset.peek(), width, mini);
  const x = event.clientX - box.left;
  const grabOffset = x >= left && x <= right ? x - left : (right - left) / 2;
  /** @param {PointerEvent} e */
  const move = (e) => show(layout.x(mini.position(e.clientX - box.left - grabOffset)));
  move(event);
  track.setPointerCapture(event.pointerId);
  const dragging = new AbortController();
  track.addEventListener("pointermove", move, { signal: dragging.signal });
  for (const name of ["pointerup", "pointercancel"])
    track.addEventListener(name, () => dragging.abort(), { signal: dragging.signal });
}

/** @param {KeyboardEvent} event @param {Viewport} viewport */
function scrollByKey(event, { offset, width, show }) {
  /** @type {Record<string, number>} */
  const places = {
    ArrowLeft: offset.peek() - ARROW_STEP,
    ArrowRight: offset.peek() + ARROW_STEP,
    PageUp: offset.peek() - width,
    PageDown: offset.peek() + width,
    Home: 0,
    End: Infinity,
  };
  const to = places[event.key];
  if (to === undefined) return;
  event.preventDefault();
  show(to);
}
