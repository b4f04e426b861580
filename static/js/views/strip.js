// The token strip: attention bars, K, V and Q as heat columns on a canvas, tokens as buttons below.

import { useEffect, useRef, useState } from "../../vendor/preact/hooks.js";
import { tick, motionAt } from "../draw/frame.js";
import { columns, rows } from "../draw/strip.js";
import { themeVersion } from "../draw/colour.js";
import { labelWidth, prepare, usePainter } from "../draw/canvas.js";
import { langOf, probabilityText, t } from "../i18n/index.js";
import { settings } from "../model/settings.js";
import { hovered, pointed, select, selected, stage, viewIndex } from "../model/store.js";
import { labelText } from "../trace/labels.js";
import { slotOf } from "../trace/metrics.js";
import { vectorOf } from "../trace/stage.js";
import { wantLayer } from "../net/session.js";
import { html } from "./html.js";
import { legendOf, paintStrip, rangesOf } from "./strip_paint.js";
import { Fidelity, hideTip, showTip, Term, tipAt } from "./words.js";

export function Strip() {
  const scroller = useRef(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [offset, setOffset] = useState(0);
  const now = stage.value;
  const layout = now && size.width ? layoutOf(now, size.width) : null;
  const span = layout ? layout.visible(offset, offset + size.width) : [0, 0];
  const geometry = useRef(null);
  geometry.current = { layout, span, offset, size };

  const ref = usePainter(
    () => [stage.value, pointed.value, themeVersion.value, motionAt() < 1 && tick.value],
    (box) => {
      const { width, height } = { width: box.clientWidth, height: box.clientHeight };
      const { layout: at, span: seen, offset: left } = geometry.current;
      const context = prepare(box.querySelector("canvas"), width, height);
      if (at) paintStrip(context, { stage: stage.value, layout: at, span: seen, offset: left, width, height });
    },
  );

  useEffect(() => {
    const box = ref.current;
    const measure = () => setSize({ width: scroller.current.clientWidth, height: box.clientHeight });
    const sizes = new ResizeObserver(measure);
    sizes.observe(box);
    sizes.observe(scroller.current);
    measure();
    return () => sizes.disconnect();
  }, []);

  useEffect(() => {
    if (!layout || now.query === null || !scroller.current) return;
    keepInSight(scroller.current, layout.x(now.seq.token_ids.length - 1) + layout.width, layout.x(now.query), size.width);
  }, [viewIndex.value, size.width, now?.seq.seq_id]);

  useEffect(() => fetchMissing(now, span), [now, span[0], span[1]]);

  return html`<div class="strip">
    <${Gutter} stage=${now} height=${size.height} />
    <div class="strip-scroll" ref=${scroller} onScroll=${(event) => setOffset(event.currentTarget.scrollLeft)} data-arrows>
      <div
        class="strip-window"
        style=${{ width: `${size.width}px` }}
        ref=${ref}
        onPointerMove=${(event) => hover(event, geometry.current)}
        onPointerLeave=${() => ((hovered.value = null), hideTip())}
        onClick=${(event) => pick(event, geometry.current)}
      >
        <canvas aria-hidden="true"></canvas>
        <${Notice} stage=${now} />
      </div>
      <div class="strip-tokens" role=${now ? "listbox" : null} aria-orientation=${now ? "horizontal" : null} aria-label=${now ? t("stage.strip_label", { name: t("sequence.name", { id: now.seq.seq_id }) }) : null} style=${{ width: `${layout?.total ?? 0}px` }}>
        ${layout ? range(span).map((position) => html`<${Token} key=${position} position=${position} layout=${layout} stage=${now} />`) : null}
        ${layout ? blockSpans(now, span).map(([logical, first, last]) => html`<${BlockMark} key=${`b${logical}`} now=${now} layout=${layout} logical=${logical} first=${first} last=${last} />`) : null}
      </div>
    </div>
  </div>`;
}

const LARGEST = 17; // px, a token's text
const SMALLEST = 11.5; // it shrinks to this before it is cut
const MAX_COLUMN = 84;

const shownText = (label) => (label.of ? label.char ?? label.hex : label.text);

/** Size of `text` in a column of `width`: the largest with which it fits, and readable. */
function fontSize(text, width) {
  return Math.max(SMALLEST, Math.min(LARGEST, Math.floor(((width - 2) / labelWidth(text)) * LARGEST * 2) / 2));
}

function layoutOf(now, width) {
  const widest = now.labels.reduce((most, label) => Math.max(most, labelWidth(shownText(label))), 0);
  const seq = now.seq;
  const expected = Math.max(seq.token_ids.length, Math.min(seq.num_prompt_tokens + seq.max_tokens, 4096));
  const needed = Math.ceil((widest * SMALLEST) / LARGEST / 8) * 8 + 4; // in steps, so that a new token seldom widens them
  return columns({
    count: seq.token_ids.length,
    expected,
    blockSize: now.blockSize,
    width,
    minimum: Math.max(26, Math.min(MAX_COLUMN, needed)),
    maximum: Math.max(40, Math.min(MAX_COLUMN, needed + 8)),
  });
}

function Gutter({ stage: now, height }) {
  const at = rows(height || 300);
  const model = now?.log.header.model;
  const ranges = now ? rangesOf() : {};
  const label = (kind, text, term, mark, second) => html`<div class=${`gutter-row ${kind}`} style=${{ top: `${at[kind].y}px`, height: `${at[kind].height}px` }}>
    <span class="gutter-name"><${Term} id=${term}>${text}<//> ${mark}</span>
    <span class="gutter-second num">${second}</span>
  </div>`;
  const mark = html`<${Fidelity} kind="captured" />`;
  const range = (kind) => (ranges[kind] ? t("stage.scale", { max: ranges[kind] }) : "");
  const top = legendOf(now);
  return html`<div class="gutter">
    ${label("attention", t("stage.attention"), "query", mark, top ? `0 – ${probabilityText(top)}` : "")}
    ${label("k", t("stage.key"), "key", mark, range("k"))} ${label("v", t("stage.value"), "value", mark, range("v"))}
    ${label("q", t("stage.query"), "query", mark, model ? range("q") : "")}
    <div class="gutter-token">${t("stage.token")}</div>
  </div>`;
}

/** Why there is no attention row, over its empty space. */
function Notice({ stage: now }) {
  if (!now) return null;
  const name = t("sequence.name", { id: now.seq.seq_id });
  let text = "";
  if (now.released) text = t("stage.released", { name });
  else if (!now.entry) text = now.record.kind === "submit" ? t("stage.no_attention.submit") : t("stage.no_attention.other", { name });
  else if (!now.attention)
    text = now.log.captureMissing(now.index) && !now.log.layer(now.index, now.layer)
      ? t("stage.no_attention.loading")
      : t(now.record.has_capture ? "stage.no_attention.omitted" : "stage.no_attention.missing", { layer: now.layer, head: now.head });
  return text ? html`<p class="strip-notice">${text}</p>` : null;
}

function Token({ position, layout, stage: now }) {
  const label = now.labels[position];
  const flight = now.entry && position >= now.entry.start && position < now.numFilled;
  const generated = position >= now.seq.num_prompt_tokens;
  const chosen = pointed.value?.position === position;
  const classes = ["token", generated ? "generated" : "prompt"];
  if (flight) classes.push("flight");
  if (position >= now.numFilled) classes.push("unwritten");
  if (chosen) classes.push("pointed");
  if (label.of) classes.push("fragment");
  return html`<button
    class=${classes.join(" ")}
    role="option"
    aria-selected=${selected.value?.position === position}
    aria-label=${describe(now, position)}
    style=${{ left: `${layout.x(position)}px`, width: `${layout.width}px`, fontSize: `${fontSize(shownText(label), layout.width)}px` }}
    data-position=${position}
    tabindex=${position === (selected.value?.position ?? now.seq.token_ids.length - 1) ? 0 : -1}
    onClick=${() => select({ position })}
    onFocus=${() => (hovered.value = { position })}
    onBlur=${() => (hovered.value = null)}
    onPointerEnter=${(event) => ((hovered.value = { position }), showTip(event.currentTarget, describe(now, position).split(SEPARATOR)))}
    onPointerLeave=${() => ((hovered.value = null), hideTip())}
    onKeyDown=${moveFocus}
  >
    <span class="token-text" lang=${langOf(shownText(label))}>${shownText(label)}</span>
    ${label.of ? html`<span class="token-part">${label.char ? `${label.part}/${label.of}` : "…"}</span>` : null}
  </button>`;
}

/** Which physical block holds the columns above it. */
function BlockMark({ now, layout, logical, first, last }) {
  const block = now.table[logical];
  const left = layout.x(first);
  const style = { left: `${left}px`, width: `${layout.x(last) + layout.width - left}px` };
  const here = pointed.value?.block === block || Math.floor((pointed.value?.position ?? -1) / now.blockSize) === logical;
  return html`<button class=${here ? "strip-block pointed" : "strip-block"} style=${style} tabindex="-1" aria-hidden="true" onClick=${() => select({ position: first, block })}>
    ${block}
  </button>`;
}

/** [logical block, first, last position] of the blocks under the visible columns. */
function blockSpans(now, [first, last]) {
  const spans = [];
  const size = now.blockSize;
  const end = Math.min(last, now.numFilled);
  for (let logical = Math.floor(first / size); logical * size < end; logical++)
    if (now.table[logical] !== undefined)
      spans.push([logical, logical * size, Math.min((logical + 1) * size, now.numFilled) - 1]);
  return spans;
}

/** A column in words. */
export function describe(now, position) {
  const label = now.labels[position];
  const parts = [t("stage.column", { token: labelText(label), position })];
  if (label.of) parts.push(label.char ? t("stage.fragment", label) : t("stage.fragment_open", label));
  const row = now.attention;
  if (row && position >= row.keyStart && position <= now.query)
    parts.push(t("stage.column.weight", { weight: probabilityText(row.weights[position - row.keyStart]) }));
  const place = position < now.numFilled ? slotOf(now.table, now.blockSize, position) : null;
  parts.push(place ? t("stage.column.slot", { block: place.block, slot: place.offset }) : t("stage.column.unwritten"));
  if (place && now.entry?.phase === "prefill" && position < now.seq.num_cached_tokens) parts.push(t("stage.column.hit"));
  return parts.join(settings.lang.value === "zh" ? "；" : "; ");
}

const SEPARATOR = /; |；/;

function moveFocus(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const next = Number(event.currentTarget.dataset.position) + step;
  event.currentTarget.parentElement.querySelector(`[data-position="${next}"]`)?.focus();
}

function positionAt(event, { layout, offset }) {
  if (!layout) return null;
  const box = event.currentTarget.getBoundingClientRect();
  return layout.at(event.clientX - box.left + offset);
}

function hover(event, geometry) {
  const position = positionAt(event, geometry);
  hovered.value = position === null ? null : { position };
  if (position === null) return hideTip();
  const box = event.currentTarget.getBoundingClientRect();
  const lines = describe(stage.value, position).split(SEPARATOR);
  const y = event.clientY - box.top;
  const at = rows(geometry.size.height);
  for (const kind of ["k", "v", "q"]) {
    if (y < at[kind].y || y >= at[kind].y + at[kind].height) continue;
    const vector = vectorOf(stage.value, kind, position);
    if (!vector) continue;
    const i = Math.min(vector.length - 1, Math.floor(((y - at[kind].y) / at[kind].height) * vector.length));
    lines.push(`${kind.toUpperCase()}[${i}] = ${Number(vector[i].toPrecision(3))}`);
  }
  tipAt(event.clientX, event.clientY, lines);
}

function pick(event, geometry) {
  const position = positionAt(event, geometry);
  if (position !== null) select({ position });
}

/** Scroll only when the newest column is not in sight. */
function keepInSight(element, right, left, width) {
  if (right > element.scrollLeft + width || left < element.scrollLeft) element.scrollLeft = Math.max(0, right - width + 24);
}

/** Ask for arrays of this layer that did not travel with their records. */
function fetchMissing(now, [first, last]) {
  if (!now) return;
  if (now.log.captureMissing(now.index) && !now.log.layer(now.index, now.layer)) wantLayer(now.index, now.layer);
  const asked = new Set();
  for (let position = first; position < last && asked.size < 16; position++) {
    if (vectorOf(now, "k", position) !== undefined) continue;
    const record = now.log.computedIn(now.seq.seq_id, position, now.index);
    if (record >= 0 && !asked.has(record)) {
      asked.add(record);
      wantLayer(record, now.layer);
    }
  }
}

function range([first, last]) {
  return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
}
