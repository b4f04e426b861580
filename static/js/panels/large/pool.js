// The pool as a texture with at least one pixel per block, a choice of what it shows, and a lens under the pointer.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { computed, signal } from "../../../vendor/signals/signals.js";
import { playing } from "../../control/playback.js";
import { blockGroups } from "../../core/groups.js";
import { CACHED, colourBlocks, FAINTEST, gridFor, MEANINGS, NAMED, ORDERS, orderOf } from "../../core/pool_texture.js";
import { grouped, t } from "../../i18n/words.js";
import { contextOf, prepare, usePainter } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { Select } from "../../kit/inputs.js";
import { pointIn } from "../../kit/measure.js";
import { overview, sequences, shown } from "../../net/log_index.js";
import { own, selected } from "../../state/store.js";

/** @import {Meaning, Order, Rgb} from "../../core/pool_texture.js" */

const chosenMeaning = signal(/** @type {Meaning} */ ("owner"));
const observed = computed(() => Boolean(own.large.value?.header.observed));
/** Cache media outside the GPU that the log names. Of more than `MAX_MEDIA`, the last ones share an entry. */
const media = computed(() => {
  const all = (overview.value?.media ?? []).map((name) => name.toUpperCase());
  return all.length > MAX_MEDIA ? [...all.slice(0, 2), all.slice(2).join("/")] : all;
});
/** Available meanings of the colours. A monitored server does not report block holders, and most logs have no tiers. */
const meanings = computed(() =>
  MEANINGS.filter((one) => (one === "tier" ? media.value.length > 0 : !(observed.value && NOT_REPORTED.includes(one)))),
);
const shownMeaning = computed(() =>
  meanings.value.includes(chosenMeaning.value) ? chosenMeaning.value : meanings.value[0],
);
const order = signal(/** @type {Order} */ ("id"));
const MAX_HEIGHT = 300; // px
const LENS = { columns: 17, rows: 9, zoom: 8 }; // blocks around the pointed block, and px per block
const MAX_MEDIA = 3; // bits of a block's tier mask
/** @type {Meaning[]} */
const NOT_REPORTED = ["owner", "refs", "hits"];
/** Block under the pointer or keyboard cursor, or null. */
const pointedBlock = signal(/** @type {number | null} */ (null));
/** The block pinned in the workspace, or null. It stays pinned when the shown run becomes too long to load. */
const pinnedBlock = () => selected.peek()?.block ?? null;

/** @type {{ids: Uint32Array, window: unknown, order: Order, at: number} | null} */
let cachedOrder = null;

/** Block ids in display order. The order does not change during playback. */
function blockOrder() {
  const now = /** @type {NonNullable<typeof shown.value>} */ (shown.value);
  const count = now.window.columns.owner.length;
  const isSameOrder = cachedOrder?.order === order.value && cachedOrder.ids.length === count;
  const isCurrent =
    order.value === "id" || (cachedOrder?.window === now.window && (cachedOrder.at === now.at || playing.peek() !== 0));
  if (!cachedOrder || !isSameOrder || !isCurrent)
    cachedOrder = { ids: orderOf(now.window.columns, order.value), window: now.window, order: order.value, at: now.at };
  return cachedOrder.ids;
}

/** Return a function from a block to its layer group. */
function groupOf() {
  const groups = own.large.value ? blockGroups(own.large.value.header) : [];
  if (groups.length < 2) return () => 0;
  return (/** @type {number} */ block) => groups.findLastIndex((group) => group.first_block <= block);
}

export const Pool = () => (shown.value ? html`<${Texture} />` : html`<div class="large-pool"></div>`);

function Texture() {
  const texture = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [size, setSize] = useState({ columns: 1, rows: 1, cell: 1 });
  const canvas = usePainter(
    () => [shown.value, shownMeaning.value, order.value, pointedBlock.value, themeVersion.value],
    (/** @type {HTMLCanvasElement} */ element, box) => {
      texture.current ??= document.createElement("canvas");
      const grid = paint(element, texture.current, box);
      if (grid && (grid.columns !== size.columns || grid.rows !== size.rows || grid.cell !== size.cell)) setSize(grid);
    },
  );
  useEffect(() => void (pointedBlock.value = pinnedBlock()), []);
  const now = /** @type {NonNullable<typeof shown.value>} */ (shown.value);
  /** @param {PointerEvent} event */
  const pointTo = (event) => {
    const { x, y } = pointIn(event, /** @type {HTMLElement} */ (event.currentTarget));
    const place = Math.floor(y / size.cell) * size.columns + Math.floor(x / size.cell);
    pointedBlock.value = x < size.columns * size.cell ? (blockOrder()[place] ?? null) : null;
  };
  const { blocks_held: held = 0, blocks_cached: cached = 0 } = now.record?.memory ?? {};
  const free = now.window.columns.owner.length - held - cached;
  const orders = observed.value ? ORDERS.filter((one) => one !== "owner") : ORDERS;
  const caption = t(observed.value ? "large.pool.observed" : "large.pool", {
    held: grouped(held),
    cached: grouped(cached),
    free: grouped(free),
  });
  return html`<figure class="large-pool">
    <figcaption>${caption}</figcaption>
    <div class="large-choices">
      <${ViewSelect} of="colour" all=${meanings.value} now=${shownMeaning.value} chosen=${chosenMeaning} />
      <${ViewSelect} of="order" all=${orders} now=${order.value} chosen=${order} />
    </div>
    <canvas ref=${canvas} id="large-pool" style=${{ height: `${Math.max(size.rows * size.cell, 40)}px` }}
      role="img" aria-label=${caption} tabindex="0" data-arrows
      onPointerMove=${pointTo} onPointerLeave=${() => (pointedBlock.value = pinnedBlock())}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => onKey(event, size.columns)}></canvas>
    <${Legend} />
    <p class="large-pointed num" role="status">${pointedText()}</p>
  </figure>`;
}

/**
 * @template {string} C
 * @typedef {import("../../../vendor/signals/signals.js").Signal<C>} Chosen
 */

/** @template {string} C @param {{of: string, all: readonly C[], now: C, chosen: Chosen<C>}} props */
const ViewSelect = ({ of, all, now, chosen }) =>
  html`<label>${t(`large.${of}`)} <${Select} id=${`large-${of}`} value=${now} commit=${(/** @type {C} */ one) =>
    (chosen.value = one)} choices=${all.map((one) => [one, t(`large.${of}.${one}`)])} /></label>`;

/** Legend of the colours. */
function Legend() {
  const palette = colours();
  themeVersion.value;
  if (shownMeaning.value === "tier") return html`<${Tiers} inks=${palette.sequences} />`;
  const groups = own.large.value ? blockGroups(own.large.value.header).length : 0;
  const inks = NAMED.includes(shownMeaning.value)
    ? palette.sequences.slice(0, shownMeaning.value === "group" ? groups : undefined)
    : scaleOf(palette.sequential, 5).map((rgb) => `rgb(${rgb})`);
  return html`<p class="large-legend">${inks.map((ink) => html`<i key=${ink} style=${{ background: ink }}></i>`)}
    <span>${t(`large.legend.${shownMeaning.value}`)}</span> <span>${t(
      observed.value ? "large.legend.observed" : "large.legend.weak",
    )}</span></p>`;
}

/** Legend of the tiers. @param {{inks: readonly string[]}} props */
const Tiers = ({ inks }) =>
  html`<p class="large-legend">${Array.from({ length: 1 << media.value.length }, (_, bits) => {
    return html`<span class="large-key"><i style=${{ background: inks[bits] }}></i> ${
      mediaText(bits) || t("large.tier.pool")
    }</span>`;
  })} <span>${t(observed.value ? "large.legend.tier.observed" : "large.legend.tier")}</span></p>`;

/** @param {number} bits */
const mediaText = (bits) => media.value.filter((_, place) => bits & (1 << place)).join(" + ");

/** Text about the block under the pointer. */
function pointedText() {
  const tierNames =
    shown.value && pointedBlock.value !== null ? mediaText(shown.value.window.columns.tiers[pointedBlock.value]) : "";
  return tierNames ? `${lensText()} · ${t("large.lens.tiers", { names: tierNames })}` : lensText();
}

/** Text about the block under the pointer, without its tiers. */
function lensText() {
  const now = shown.value;
  const id = pointedBlock.value;
  if (!now || id === null || id >= now.window.columns.owner.length) return t("large.lens.point");
  const { columns } = now.window;
  const [allocated, used] = [columns.allocated_in[id], columns.used_in[id]].map((at) => (at < 0 ? "–" : grouped(at)));
  if (observed.value)
    return columns.is_cached[id]
      ? t("large.lens.observed", { id: grouped(id), filled: columns.filled[id], allocated, used })
      : t("large.lens.unknown", { id: grouped(id) });
  const owner = sequences.value[columns.owner[id]];
  const name = owner ? owner.request : t("large.lens.nobody");
  const state = columns.ref_count[id] ? "held" : columns.is_cached[id] ? "cached" : "free";
  return t("large.lens", {
    id: grouped(id),
    state: t(`large.lens.${state}`, { n: columns.ref_count[id] }),
    name,
    filled: columns.filled[id],
    size: Number(own.large.value?.header.engine.block_size),
    hits: grouped(columns.num_hits[id]),
    allocated,
    used,
  });
}

/** @param {KeyboardEvent} event @param {number} columns */
function onKey(event, columns) {
  const ids = blockOrder();
  const at = pointedBlock.value === null ? -1 : ids.indexOf(pointedBlock.value);
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  const to = event.key === "Home" ? 0 : event.key === "End" ? ids.length - 1 : by === undefined ? null : at + by;
  if (to === null) return;
  event.preventDefault();
  event.stopPropagation();
  pointedBlock.value = ids[Math.max(0, Math.min(ids.length - 1, to))];
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {HTMLCanvasElement} texture one pixel per block
 * @param {{width: number, height: number}} box
 */
function paint(canvas, texture, { width, height }) {
  const now = shown.value;
  if (!now) return null;
  const ids = blockOrder();
  const grid = gridFor(ids.length, width, MAX_HEIGHT);
  const { columns, rows, cell } = grid;
  if (texture.width !== columns || texture.height !== rows) [texture.width, texture.height] = [columns, rows];
  const small = contextOf(texture);
  const image = small.createImageData(columns, rows);
  const palette = colours();
  const inks = {
    paper: rgbOf(palette.paper),
    ink: rgbOf(palette.ink),
    owners: palette.sequences.map(rgbOf),
    scale: scaleOf(palette.sequential, 64),
    cached: observed.value ? 1 : CACHED, // a monitored server does not report block holders
  };
  colourBlocks(
    new Uint32Array(image.data.buffer),
    ids,
    now.window.columns,
    shownMeaning.value,
    now.at,
    inks,
    groupOf(),
  );
  small.putImageData(image, 0, 0);
  const c = prepare(canvas, width, height);
  c.imageSmoothingEnabled = false;
  c.drawImage(texture, 0, 0, columns * cell, rows * cell);
  c.strokeStyle = palette.line;
  c.strokeRect(0.5, 0.5, columns * cell - 1, rows * cell - 1);
  if (pointedBlock.value === null) return grid;
  const place = order.value === "id" ? pointedBlock.value : ids.indexOf(pointedBlock.value);
  const [x, y] = [(place % columns) * cell, Math.floor(place / columns) * cell];
  c.strokeStyle = palette.focus;
  c.lineWidth = 2;
  c.strokeRect(x - 3, y - 3, cell + 6, cell + 6);
  if (cell < LENS.zoom) paintLens(c, texture, palette, { place, columns, cell, width, height });
  return grid;
}

/**
 * Paint the magnified surroundings of the pointed block.
 * @param {CanvasRenderingContext2D} c @param {HTMLCanvasElement} texture
 * @param {import("../../kit/colour.js").Palette} palette
 * @param {{place: number, columns: number, cell: number, width: number, height: number}} at
 */
function paintLens(c, texture, palette, { place, columns, cell, width, height }) {
  const [column, row] = [place % columns, Math.floor(place / columns)];
  const [lensWidth, lensHeight] = [LENS.columns * LENS.zoom, LENS.rows * LENS.zoom];
  const [left, top] = [column - (LENS.columns >> 1), row - (LENS.rows >> 1)]; // top left corner, in blocks
  const x = column * cell + lensWidth + 20 < width ? column * cell + 12 : column * cell - lensWidth - 12;
  const y = Math.max(2, Math.min(height - lensHeight - 2, row * cell - lensHeight / 2));
  c.fillStyle = palette.surface;
  c.fillRect(x, y, lensWidth, lensHeight);
  c.drawImage(texture, left, top, LENS.columns, LENS.rows, x, y, lensWidth, lensHeight); // empty beyond the edge
  c.lineWidth = 1;
  c.strokeStyle = palette["ink-3"];
  c.strokeRect(x - 0.5, y - 0.5, lensWidth + 1, lensHeight + 1);
  c.lineWidth = 2;
  c.strokeStyle = palette.focus;
  c.strokeRect(x + (lensWidth - LENS.zoom) / 2, y + (lensHeight - LENS.zoom) / 2, LENS.zoom, LENS.zoom);
}

/** @param {string} hex @returns {Rgb} */
const rgbOf = (hex) => /** @type {Rgb} */ ([1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) || 0));

/**
 * Sample `count` colours of a scale, from first to last.
 * @param {import("../../kit/colour.js").Scale} scale @param {number} count
 */
const scaleOf = (scale, count) =>
  Array.from({ length: count }, (_, i) => {
    const share = FAINTEST + ((1 - FAINTEST) * i) / (count - 1);
    return scale[Math.round(share * (scale.length - 1))];
  });
