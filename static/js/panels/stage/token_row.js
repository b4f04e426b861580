// The token row: attention bars, K, V and Q as heat columns on a canvas, tokens as buttons below, and a minimap. Only
// visible columns are painted and in the document.

import { useEffect, useLayoutEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { computed, signal } from "../../../vendor/signals/signals.js";
import { originOf } from "../../core/sequence_view.js";
import { t } from "../../i18n/words.js";
import { registerAnchor } from "../../kit/anchors.js";
import { measureNow, prepare, usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { pointIn } from "../../kit/measure.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { requestLayer } from "../../net/commands.js";
import { phase, phasesNow, viewSub } from "../../state/stage_playhead.js";
import { bare, hovered, pointed, select, sequenceView, shownSeq } from "../../state/store.js";
import { scrollTo } from "./geometry.js";
import { lensIsOn, lensIsPossible } from "./lens.js";
import { LensRow } from "./lens_row.js";
import { Minimap } from "./minimap.js";
import { cellOf, done, KINDS, layoutOf, rowsOf } from "./token_row_columns.js";
import { Gutter, Notice } from "./token_row_gutter.js";
import { renderSync, usePhaseVariables } from "./token_row_motion.js";
import { paintOutline, paintTokenRow } from "./token_row_paint.js";
import { columnTip } from "./token_row_tip.js";
import { BlockMarks, Tokens } from "./token_row_tokens.js";

/** @import {View} from "../../state/store.js" */

/** @typedef {{layout: import("./geometry.js").Columns | null, size: {width: number, height: number}}} Geometry */

const MAX_FETCHES = 64; // arrays requested at once

const PRINT_EVENTS = ["beforeprint", "afterprint"];
/** @type {import("../../state/playhead.js").Phase[]} */
const DRAWN_PHASES = ["qkv", "write", "attend", "sample"]; // phases that change the columns
const RENDER_STEP = 32; // px of scrolling after which the tokens are rendered again

/** Scroll offset of the token row in px. */
const offset = signal(0);
const renderedStep = computed(() => Math.floor(offset.value / RENDER_STEP));
/** Whether the token row follows its newest column. Scrolling away from that column sets it to false. */
const follows = signal(true);
/** Whether the token sampled in the record has a column. It has none in sub-steps before `sample`. */
const withSampled = computed(() => done(viewSub.value, "sample") || phase("sample") > 0);

export function TokenRow() {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const pendingFocus = useRef(/** @type {number | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0 });
  const now = sequenceView.value;
  const sub = viewSub.value;
  const layout = now && size.width ? layoutOf(now, size.width, withSampled.value) : null;
  const left = renderedStep.value * RENDER_STEP;
  /** @type {[number, number]} */
  const span = layout ? layout.visible(left, left + RENDER_STEP + size.width) : [0, 0];
  const geometry = useRef(/** @type {Geometry} */ ({ layout, size }));
  geometry.current = { layout, size };

  const ref = usePainter(
    () => [sequenceView.value, pointed.value, themeVersion.value, offset.value, ...DRAWN_PHASES.map(phase)],
    (box, { width, height }) => {
      const { layout: at } = geometry.current;
      const canvas = box.querySelector("canvas");
      if (!canvas) return;
      const context = prepare(canvas, width, height);
      if (!at || !sequenceView.value) return bare.value ? undefined : paintOutline(context, width, height);
      const x = offset.peek();
      paintTokenRow(context, {
        now: sequenceView.value,
        layout: at,
        span: at.visible(x, x + width),
        offset: x,
        width,
        height,
        phases: phasesNow(),
      });
    },
  );

  const measure = () => setSize({ width: scroller.current?.clientWidth ?? 0, height: ref.current?.clientHeight ?? 0 });
  useEffect(() => {
    const sizes = new ResizeObserver(measure);
    for (const element of [ref.current, scroller.current]) if (element) sizes.observe(element);
    return () => sizes.disconnect();
  }, []);

  /** @param {number} at */
  const isNewestVisible = (at) =>
    layout !== null && layout.x(newest) < at + size.width && layout.x(newest) + layout.width > at;
  /** @param {number} to */
  const scroll = (to) => {
    if (!scroller.current) return;
    if (scroller.current.scrollLeft !== to) scroller.current.scrollLeft = to; // a newly mounted token row starts at 0
    offset.value = to;
  };

  // follow a new sequence; must precede the scroll effect, which reads it
  useLayoutEffect(() => {
    follows.value = true;
  }, [now?.seq.seq_id, now?.log]);

  // print the token row from its beginning
  useEffect(() => {
    /** @type {number | null} */
    let previous = null;
    /** @param {Event} event */
    const onPrint = ({ type }) => {
      const isStart = type === "beforeprint";
      if (isStart === (previous !== null)) return;
      const to = isStart ? 0 : (previous ?? 0);
      previous = isStart ? offset.peek() : null;
      renderSync(() => {
        measure(); // the print layout determines the height
        scroll(to);
        measureNow();
      });
    };
    for (const type of PRINT_EVENTS) addEventListener(type, onPrint);
    return () => PRINT_EVENTS.forEach((type) => removeEventListener(type, onPrint));
  }, []);

  // scroll to the columns of this record, including the sampled token
  const newest = layout ? layout.count - 1 : -1;
  const oldest = Math.min(newest, now?.entry?.start ?? (now?.numFilled ? newest : 0)); // a prefill is shown completely
  useLayoutEffect(() => {
    if ("printing" in document.documentElement.dataset) return; // print starts at the beginning
    if (layout && newest >= 0 && follows.peek()) scroll(scrollTo(layout, offset.peek(), size.width, oldest, newest));
  }, [now?.index, newest, oldest, size.width, now?.seq.seq_id, now?.log]);
  const onScroll = () => {
    const to = scroller.current?.scrollLeft ?? 0;
    if (Math.abs(to - offset.peek()) < 1) return; // not by the user
    offset.value = to;
    const resized = scroller.current?.clientWidth !== size.width; // a resize, not a user's scroll
    if (newest >= 0 && !resized) follows.value = isNewestVisible(to);
  };

  /** Scroll to a column on user input, and follow the newest column if it is visible there. @param {number} to */
  const show = (to) => {
    if (!layout) return;
    const target = Math.max(0, Math.min(to, layout.extent - size.width));
    scroll(target);
    follows.value = isNewestVisible(target);
  };
  /** @param {number} position */
  const focusColumn = (position) => {
    pendingFocus.current = position;
    if (layout) show(scrollTo(layout, offset.peek(), size.width, position, position));
    focusPending();
  };
  const focusPending = () => {
    if (pendingFocus.current === null) return;
    /** @type {HTMLElement | null | undefined} */
    const token = scroller.current?.querySelector(`[data-position="${pendingFocus.current}"]`);
    if (!token) return; // focused after the next rendering
    pendingFocus.current = null;
    token.focus({ preventScroll: true });
  };
  useLayoutEffect(focusPending);

  useEffect(
    () =>
      registerAnchor("vector", (kind, position) => {
        const { layout: at, size: room } = geometry.current;
        const band = rowsOf(sequenceView.peek(), room.height)[kind];
        const [left, corner] = [at ? at.x(position) - offset.peek() : -1, ref.current?.getBoundingClientRect()];
        if (!at || !corner || !band.height || left < 0 || left + at.width > room.width) return null;
        return { x: corner.left + left, y: corner.top + band.y, width: at.width, height: band.height };
      }),
    [],
  );
  useEffect(
    () =>
      registerAnchor("columns", (seq, first, count) => {
        const [{ layout: at, size: room }, corner] = [geometry.current, ref.current?.getBoundingClientRect()];
        if (!at || !corner || seq !== shownSeq.peek()) return null;
        const from = Math.max(0, at.x(first) - offset.peek());
        const to = Math.min(room.width, (count ? at.x(first + count - 1) + at.width : at.x(first)) - offset.peek());
        return to < from ? null : { x: corner.left + from, y: corner.top, width: to - from, height: room.height };
      }),
    [],
  );

  useEffect(() => fetchMissing(now, span), [now, span[0], span[1]]);

  /** @param {PointerEvent} event */
  const onPointer = (event) => hover(event, geometry.current);
  /** @param {MouseEvent} event */
  const onClick = (event) => pick(event, geometry.current);
  const tokens = usePhaseVariables();
  return html`<div class="token-row" data-lens=${lensIsOn.value && lensIsPossible.value}>
    <${Gutter} now=${now} height=${size.height} />
    <div class="token-row-scroll" id="token-row-scroll" ref=${scroller} onScroll=${onScroll} data-arrows>
      <div
        class="token-row-window" data-fades
        style=${{ width: `${size.width}px` }}
        ref=${ref}
        onPointerMove=${onPointer}
        onPointerLeave=${leave}
        onClick=${onClick}
      >
        <canvas aria-hidden="true"></canvas>
        <${Notice} now=${now} height=${size.height} />
      </div>
      ${layout ? html`<${LensRow} ...${{ now, layout, span }} />` : null}
      <div
        class="token-row-tokens"
        role="listbox"
        aria-orientation="horizontal"
        aria-label=${
          now ? t("stage.token_row_label", { name: t("sequence.name", { id: now.seq.seq_id }) }) : t("stage.token")
        }
        style=${{ width: `${layout?.extent ?? 0}px` }}
        ref=${tokens}
      >
        ${
          layout
            ? html`<${Tokens} ...${{ now, layout, span, sub, focusColumn }} /><${BlockMarks} ...${{ now, layout, span }}
          />`
            : null
        }
      </div>
    </div>
    <${Minimap} ...${{ layout, offset, width: size.width, follows, show }} />
    ${
      layout && layout.whole(size.width) < layout.count
        ? html`<p
      class="token-row-cut">${t("stage.cut", { last: layout.whole(size.width) - 1, n: layout.count })}</p>`
        : null
    }
  </div>`;
}

function leave() {
  hovered.value = null;
  hideTip();
}

/** @param {MouseEvent} event @param {Pick<Geometry, "layout">} geometry */
function positionAt(event, { layout }) {
  if (!layout) return null;
  return layout.at(pointIn(event, /** @type {HTMLElement} */ (event.currentTarget)).x + offset.peek());
}

/** @param {PointerEvent} event @param {Geometry} geometry */
function hover(event, { layout, size }) {
  const position = positionAt(event, { layout });
  if (position === null) return leave();
  if (hovered.peek()?.position !== position) hovered.value = { position };
  const now = sequenceView.value;
  if (!now) return;
  const { y } = pointIn(event, /** @type {HTMLElement} */ (event.currentTarget));
  const at = rowsOf(now, size.height);
  const kind = KINDS.find((name) => y >= at[name].y && y < at[name].y + at[name].height) ?? null;
  const vector = kind && cellOf(now, kind, position).vector;
  const component =
    kind && vector
      ? Math.min(vector.length - 1, Math.floor(((y - at[kind].y) / at[kind].height) * vector.length))
      : null;
  tipAt(event.clientX, event.clientY, columnTip(now, position, viewSub.value, kind, component));
}

/** @param {MouseEvent} event @param {Geometry} geometry */
function pick(event, geometry) {
  const position = positionAt(event, geometry);
  if (position !== null) select({ position });
}

/**
 * Fetch arrays of this layer that were not sent with their records.
 * @param {View | null} now @param {[number, number]} span
 */
function fetchMissing(now, [first, last]) {
  if (!now) return;
  if (now.log.captureMissing(now.index, now.layer)) requestLayer(now.index, now.layer);
  const requested = new Set();
  for (let position = first; position < last && requested.size < MAX_FETCHES; position++) {
    if (cellOf(now, "k", position).missing !== "loading") continue;
    const record = originOf(now, position)?.record ?? -1; // another sequence's record for shared or transferred blocks
    if (record >= 0 && !requested.has(record)) {
      requested.add(record);
      requestLayer(record, now.layer);
    }
  }
}
