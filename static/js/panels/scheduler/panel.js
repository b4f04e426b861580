// The scheduler panel: a track per sequence over the records, the budgets of each step, and the decisions of the shown
// record.

import { useEffect, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { cellAt, tracksIn, tracksOf } from "../../core/tracks.js";
import { language } from "../../i18n/language.js";
import { t } from "../../i18n/words.js";
import { registerAnchor } from "../../kit/anchors.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { settings } from "../../state/settings.js";
import { log, numRecords, selected, shownSeq, viewIndex } from "../../state/store.js";
import { describe, gutterOf, limitsOf, selectCell } from "./cells.js";
import { Decisions } from "./decisions.js";
import { AXIS_HEIGHT, rowsFit, tracksLayout, visibleRecords } from "./geometry.js";
import { Legend } from "./legend.js";
import { paintTracks } from "./paint.js";

/** @import {Layout} from "./geometry.js" */
/** @import {Track, Tracks} from "./paint.js" */

/**
 * @typedef {import("../../core/tracks.js").Tracks} AllTracks
 * @typedef {{track: number, record: number}} Place
 */

/**
 * Cell of the keyboard cursor, or null for the shown sequence in the shown record.
 * @type {import("../../../vendor/signals/signals.js").Signal<Place | null>}
 */
const cursor = signal(null);

const hidden = signal(0); // number of tracks without cells in the visible records

export function Panel() {
  const tracks = log.value && numRecords.value ? tracksOf(log.value) : null;
  return html`<div class="scheduler">
    <section class="tracks">
      <header class="tracks-head">
        <h3 class="panel-title"><${Term} id="continuous_batching">${t("tracks.title")}<//> <${Fidelity} kind="captured"
          /></h3>
        ${
          hidden.value
            ? html`<span class="hint num tracks-hidden">${t("tracks.hidden", { n: hidden.value })}</span>`
            : null
        }
        <${Legend} />
      </header>
      ${tracks ? html`<${Plane} tracks=${tracks} />` : html`<p class="hint">${t("tracks.empty")}</p>`}
    </section>
    <${Decisions} />
  </div>`;
}

/**
 * The scrolled plane: a canvas of the window's size, painted with the visible part. If not all tracks fit, only the
 * tracks of the visible records are shown, with the chosen one pinned on top.
 * @param {{tracks: AllTracks}} props
 */
function Plane({ tracks: all }) {
  const scrollBox = useRef(/** @type {HTMLElement | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [left, setLeft] = useState(0);
  const gutter = gutterOf(log.value);
  const fitsAll = rowsFit(all.tracks.length, size.height);
  const [from, to] = fitsAll || !size.width ? [0, Infinity] : visibleRecords(all.length, size.width, left, gutter);
  const tracks = tracksIn(all, from, to, fitsAll ? null : settings.seq.value);
  const counts = { records: tracks.length, tracks: tracks.tracks.length, pinned: tracks.pinned };
  const layout = tracksLayout({ ...counts, ...size, gutter });
  const planeRef = useRef({ layout, tracks });
  planeRef.current = { layout, tracks };
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
    (plane) => paint(plane, scrollBox.current, planeRef.current),
  );
  useEffect(() => {
    const measure = () =>
      scrollBox.current && setSize({ width: scrollBox.current.clientWidth, height: scrollBox.current.clientHeight });
    const sizes = new ResizeObserver(measure);
    if (scrollBox.current) sizes.observe(scrollBox.current);
    measure();
    const stop = registerAnchor("track", (seq) => {
      const [{ layout: at, tracks: all }, scroll] = [planeRef.current, scrollBox.current];
      const row = all.tracks.findIndex((track) => track.seq_id === seq);
      const box = scroll?.getBoundingClientRect();
      if (!scroll || !box || row < 0) return null;
      const y = at.y(row) - (row < Number(all.pinned) ? 0 : scroll.scrollTop);
      const isSeen = y >= at.top && y + at.row <= box.height - AXIS_HEIGHT;
      return isSeen ? { x: box.left, y: box.top + y, width: at.gutter, height: at.row } : null;
    });
    return () => (stop(), sizes.disconnect());
  }, []);
  const shown = viewIndex.value;
  useLayoutEffect(() => scrollToRecord(scrollBox.current, layout, shown), [shown, tracks.length, size.width]);
  useEffect(() => {
    hidden.value = tracks.hidden;
    return () => {
      hidden.value = 0;
    };
  }, [tracks.hidden]);
  useLayoutEffect(() => scrollToRunning(scrollBox.current, layout, tracks, shown), [shown, tracks.hidden, size.height]);
  /** @param {PointerEvent} event */
  const onPointer = (event) => hover(event, tracks, layout);
  /** @param {MouseEvent} event */
  const onClick = (event) => selectCell(pointAt(event, layout), tracks);
  const scroll = () => {
    scrolled.value += 1;
    hideTip();
    if (!fitsAll) setLeft(scrollBox.current?.scrollLeft ?? 0);
  };
  return html`<div class="tracks-scroll" ref=${scrollBox} onScroll=${scroll} data-tracks=${tracks.tracks.length}>
    <div class="tracks-plane" ref=${ref}
      style=${{ width: `${layout.width}px`, height: `${layout.height}px` }}
      role="group"
      data-arrows
      aria-label=${t("tracks.label", { n: tracks.tracks.length, records: tracks.length })}
      onPointerMove=${onPointer}
      onPointerLeave=${hideTip}
      onClick=${onClick}
    >
      <canvas aria-hidden="true"></canvas>
      <${Cursor} tracks=${tracks} layout=${layout} />
    </div>
  </div>`;
}

/** @param {HTMLElement} plane @param {HTMLElement | null} scroll @param {{layout: Layout, tracks: Tracks}} current */
function paint(plane, scroll, { layout, tracks }) {
  const canvas = plane.querySelector("canvas");
  if (!scroll || !canvas) return; // the panel was closed before the frame
  const view = {
    left: scroll.scrollLeft,
    top: scroll.scrollTop,
    width: scroll.clientWidth,
    height: scroll.clientHeight,
  };
  const c = prepare(canvas, view.width, view.height);
  if (!log.value) return;
  paintTracks(c, {
    tracks,
    layout,
    view,
    header: log.value.header,
    limits: limitsOf(log.value),
    shown: viewIndex.value,
    shownSeq: shownSeq.value,
    selected: selected.value,
  });
}

/**
 * Scroll horizontally if the shown record is not visible.
 * @param {HTMLElement | null} scroll @param {Layout} layout @param {number} record
 */
function scrollToRecord(scroll, layout, record) {
  if (!scroll || record < 0) return;
  const left = layout.x(record) - layout.gutter;
  const room = scroll.clientWidth - layout.gutter;
  if (left < scroll.scrollLeft) scroll.scrollLeft = Math.max(0, left - room / 3);
  else if (left + layout.cell > scroll.scrollLeft + room) scroll.scrollLeft = left + layout.cell - room + layout.cell;
}

/**
 * Scroll vertically if no track that runs in the shown record is visible. Budgets and axis are fixed.
 * @param {HTMLElement | null} scroll @param {Layout} layout @param {Tracks} tracks
 * @param {number} record
 */
function scrollToRunning(scroll, layout, { tracks, pinned }, record) {
  if (!scroll || record < 0) return;
  const numPinned = Number(pinned);
  const first = scroll.scrollTop / layout.row + numPinned; // visible rows without the pinned one
  const last = first + (scroll.clientHeight - layout.top - AXIS_HEIGHT - layout.pinned) / layout.row;
  const running = tracks.flatMap((track, row) => {
    const kind = row < numPinned ? null : cellAt(track, record)?.kind;
    return kind === "prefill" || kind === "decode" || kind === "idle" ? [row] : [];
  });
  if (!running.length || running.some((row) => row >= first && row + 1 <= last)) return;
  scroll.scrollTop = (running[0] - numPinned) * layout.row;
}

/**
 * Return record and track under the pointer. The canvas does not scroll, so names and budgets have window coordinates.
 * @param {MouseEvent} event @param {Layout} layout
 */
function pointAt(event, layout) {
  const scroll = /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (event.currentTarget).parentElement);
  const box = scroll.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const found = layout.at(x + scroll.scrollLeft, y < layout.top ? -1 : y + scroll.scrollTop);
  if (y > scroll.clientHeight - AXIS_HEIGHT) found.track = null;
  else if (y >= layout.top && y < layout.top + layout.pinned) found.track = 0;
  return x < layout.gutter - 4 ? { record: null, track: found.track } : found;
}

/** @param {PointerEvent} event @param {Tracks} tracks @param {Layout} layout */
function hover(event, tracks, layout) {
  const { record, track } = pointAt(event, layout);
  if (record === null) return hideTip();
  tipAt(event.clientX, event.clientY, describe(tracks, track, record));
}

/** @type {Record<string, [number, number]>} columns and rows to move, by key */
const MOVES = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
};

/**
 * A focusable button that moves over the cells, for keyboards and screen readers.
 * @param {{tracks: Tracks, layout: Layout}} props
 */
function Cursor({ tracks, layout }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const hasMoved = useRef(false);
  const row = Math.max(
    0,
    Math.min(
      cursor.value?.track ?? tracks.tracks.findIndex((/** @type {Track} */ track) => track.seq_id === shownSeq.value),
      tracks.tracks.length - 1,
    ),
  );
  const record = Math.max(0, Math.min(cursor.value?.record ?? viewIndex.value, tracks.length - 1));
  useEffect(() => {
    if (hasMoved.current) ref.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
    hasMoved.current = false;
  });
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (!(event.key in MOVES)) return;
    const [dx, dy] = MOVES[event.key];
    event.preventDefault();
    hasMoved.current = true;
    cursor.value = {
      track: Math.max(0, Math.min(row + dy, tracks.tracks.length - 1)),
      record: Math.max(0, Math.min(record + dx, tracks.length - 1)),
    };
  };
  /** @param {MouseEvent} event */
  const onClick = (event) => {
    if (event.detail !== 0) return; // mouse clicks are handled by the plane
    event.stopPropagation();
    selectCell({ record, track: row }, tracks);
  };
  const words = describe(tracks, row, record).join("; ");
  // A single button keeps the focus; the cell below it is announced.
  return html`<button
    ref=${ref}
    class="tracks-cursor"
    aria-label=${words}
    style=${{
      left: `${layout.x(record)}px`,
      top: `${layout.y(row)}px`,
      width: `${layout.cell}px`,
      height: `${layout.row}px`,
    }}
    onKeyDown=${onKey}
    onBlur=${() => (cursor.value = null)}
    onClick=${onClick}
  ></button>
  <span class="visually-hidden" aria-live="polite">${cursor.value ? words : ""}</span>`;
}
