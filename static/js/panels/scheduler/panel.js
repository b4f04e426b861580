// The scheduler's panel: a lane for each sequence over the records, the budgets of each step, the decisions of the
// record shown.

import { useEffect, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { lanesOf } from "../../core/lanes.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { Decisions } from "../../kit/decisions.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { settings } from "../../state/settings.js";
import { log, numRecords, selected, shownSeq, viewIndex } from "../../state/store.js";
import { language } from "../../tell/language.js";
import { t } from "../../tell/words.js";
import { describe, limitsOf, pick } from "./cells.js";
import { AXIS, GUTTER, lanesLayout } from "./geometry.js";
import { Legend } from "./legend.js";
import { paintLanes } from "./paint.js";

/**
 * @typedef {import("./paint.js").Lanes} Lanes
 * @typedef {import("./geometry.js").Layout} Layout
 * @typedef {import("./paint.js").Lane} Lane
 * @typedef {{lane: number, record: number}} Place
 */

/**
 * The cell that the keyboard is at: {lane, record}, or null for the shown sequence in the record shown.
 *
 * @type {import("../../../vendor/signals/signals.js").Signal<Place | null>}
 */
const cursor = signal(null);

export function Panel() {
  const lanes = log.value && numRecords.value ? lanesOf(log.value) : null;
  return html`<div class="scheduler">
    <section class="lanes">
      <header class="lanes-head">
        <h3 class="panel-title"><${Term} id="continuous_batching">${t("lanes.title")}<//> <${Fidelity} kind="captured"
          /></h3>
        <${Legend} />
      </header>
      ${lanes ? html`<${Plane} lanes=${lanes} />` : html`<p class="hint">${t("lanes.empty")}</p>`}
    </section>
    <${Decisions} />
  </div>`;
}

/**
 * The scrolled plane: one canvas as large as the window, painted with what lies in it.
 *
 * @param {{lanes: Lanes}} props
 */
function Plane({ lanes }) {
  const outer = useRef(/** @type {HTMLElement | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0 });
  const layout = lanesLayout({ records: lanes.length, lanes: lanes.lanes.length, ...size });
  const latest = useRef(layout);
  latest.current = layout;
  const [scrolled] = useState(() => signal(0));
  const ref = usePainter(
    () => [
      scrolled.value,
      numRecords.value,
      viewIndex.value,
      shownSeq.value,
      selected.value,
      language.value,
      themeVersion.value,
    ],
    (plane) => paint(plane, outer.current, latest.current),
  );
  useEffect(() => {
    const measure = () =>
      outer.current && setSize({ width: outer.current.clientWidth, height: outer.current.clientHeight });
    const sizes = new ResizeObserver(measure);
    if (outer.current) sizes.observe(outer.current);
    measure();
    return () => sizes.disconnect();
  }, []);
  const shown = viewIndex.value;
  useLayoutEffect(() => keepInView(outer.current, layout, shown), [shown, lanes.length, size.width]);
  // -1: none was chosen
  const chosen = lanes.lanes.findIndex((/** @type {Lane} */ lane) => lane.seq_id === settings.seq.value);
  useLayoutEffect(() => laneIntoView(outer.current, layout, chosen), [chosen, size.height]);
  /** @param {PointerEvent} event */
  const hoverHere = (event) => hover(event, lanes, layout);
  /** @param {MouseEvent} event */
  const pickHere = (event) => pick(pointAt(event, layout), lanes);
  return html`<div class="lanes-scroll" ref=${outer} onScroll=${() => ((scrolled.value += 1), hideTip())}>
    <div
      class="lanes-plane"
      ref=${ref}
      style=${{ width: `${layout.width}px`, height: `${layout.height}px` }}
      role="group"
      data-arrows
      aria-label=${t("lanes.label", { n: lanes.lanes.length, records: lanes.length })}
      onPointerMove=${hoverHere}
      onPointerLeave=${hideTip}
      onClick=${pickHere}
    >
      <canvas aria-hidden="true"></canvas>
      <${Cursor} lanes=${lanes} layout=${layout} />
    </div>
  </div>`;
}

/**
 * @param {HTMLElement} plane
 * @param {HTMLElement | null} scroll
 * @param {Layout} layout
 */
function paint(plane, scroll, layout) {
  const canvas = plane.querySelector("canvas");
  if (!scroll || !canvas) return; // the panel was closed between the request for a frame and the frame
  const view = {
    left: scroll.scrollLeft,
    top: scroll.scrollTop,
    width: scroll.clientWidth,
    height: scroll.clientHeight,
  };
  const c = prepare(canvas, view.width, view.height);
  if (!log.value) return;
  paintLanes(c, {
    lanes: lanesOf(log.value),
    layout,
    view,
    limits: limitsOf(log.value),
    shown: viewIndex.value,
    shownSeq: shownSeq.value,
    selected: selected.value,
  });
}

/**
 * Scroll sideways when the record shown is outside the window.
 *
 * @param {HTMLElement | null} scroll
 * @param {Layout} layout
 * @param {number} record
 */
function keepInView(scroll, layout, record) {
  if (!scroll || record < 0) return;
  const left = layout.x(record) - GUTTER;
  const room = scroll.clientWidth - GUTTER;
  if (left < scroll.scrollLeft) scroll.scrollLeft = Math.max(0, left - room / 3);
  else if (left + layout.cell > scroll.scrollLeft + room) scroll.scrollLeft = left + layout.cell - room + layout.cell;
}

/**
 * Scroll up or down when the lane of the chosen sequence is hidden: the budgets stay at the top, the axis at the
 * bottom.
 *
 * @param {HTMLElement | null} scroll
 * @param {Layout} layout
 * @param {number} lane
 */
function laneIntoView(scroll, layout, lane) {
  if (!scroll || lane < 0) return;
  const room = scroll.clientHeight - layout.top - AXIS;
  const above = layout.y(lane) - layout.top;
  if (above < scroll.scrollTop) scroll.scrollTop = above;
  else if (above + layout.row > scroll.scrollTop + room) scroll.scrollTop = above + layout.row - room;
}

/**
 * What a pointer is at: the canvas stays put, so names and budgets are where the window has them.
 *
 * @param {MouseEvent} event
 * @param {Layout} layout
 */
function pointAt(event, layout) {
  const scroll = /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (event.currentTarget).parentElement);
  const box = scroll.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const found = layout.at(x + scroll.scrollLeft, y < layout.top ? -1 : y + scroll.scrollTop);
  if (y > scroll.clientHeight - AXIS) found.lane = null;
  return x < GUTTER - 4 ? { record: null, lane: found.lane } : found;
}

/**
 * @param {PointerEvent} event
 * @param {Lanes} lanes
 * @param {Layout} layout
 */
function hover(event, lanes, layout) {
  const { record, lane } = pointAt(event, layout);
  if (record === null) return hideTip();
  tipAt(event.clientX, event.clientY, describe(lanes, lane, record));
}

/** @type {Record<string, [number, number]>} columns and rows by key */
const MOVES = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
};

/**
 * One focusable button that travels over the cells: the lanes for keyboards and screen readers.
 *
 * @param {{lanes: Lanes, layout: Layout}} props
 */
function Cursor({ lanes, layout }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const moved = useRef(false);
  const row = Math.max(
    0,
    Math.min(
      cursor.value?.lane ?? lanes.lanes.findIndex((/** @type {Lane} */ lane) => lane.seq_id === shownSeq.value),
      lanes.lanes.length - 1,
    ),
  );
  const record = Math.max(0, Math.min(cursor.value?.record ?? viewIndex.value, lanes.length - 1));
  useEffect(() => {
    if (moved.current) ref.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
    moved.current = false;
  });
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    if (!(event.key in MOVES)) return;
    const [dx, dy] = MOVES[event.key];
    event.preventDefault();
    moved.current = true;
    cursor.value = {
      lane: Math.max(0, Math.min(row + dy, lanes.lanes.length - 1)),
      record: Math.max(0, Math.min(record + dx, lanes.length - 1)),
    };
  };
  /** @param {MouseEvent} event */
  const pressed = (event) => {
    if (event.detail !== 0) return; // a pointer: the plane knows where
    event.stopPropagation();
    pick({ record, lane: row }, lanes);
  };
  const words = describe(lanes, row, record).join("; ");
  // One button that stays focused; what it travels over is announced.
  return html`<button
    ref=${ref}
    class="lanes-cursor"
    aria-label=${words}
    style=${{
      left: `${layout.x(record)}px`,
      top: `${layout.y(row)}px`,
      width: `${layout.cell}px`,
      height: `${layout.row}px`,
    }}
    onKeyDown=${move}
    onBlur=${() => (cursor.value = null)}
    onClick=${pressed}
  ></button>
  <span class="visually-hidden" aria-live="polite">${cursor.value ? words : ""}</span>`;
}
