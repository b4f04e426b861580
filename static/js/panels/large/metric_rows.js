// The run over time: one row per metric with the minimum and maximum of each bin of records, so that a single outlier
// stays visible.

import { useMemo, useState } from "../../../vendor/preact/hooks.js";
import { computed } from "../../../vendor/signals/signals.js";
import { jumpTo } from "../../control/playback.js";
import { binAt } from "../../core/log_index.js";
import { language } from "../../i18n/language.js";
import { grouped, percentText, secondsText, t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { alpha, colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { pointIn } from "../../kit/measure.js";
import { bins, largestIn, overview, place } from "../../net/log_index.js";
import { own } from "../../state/store.js";

/** @import {Bins} from "../../core/log_index.js" */

/**
 * `key` names the label, `name` the series, `hue` a colour of the palette. `counts`: the series is mostly zero, and its
 * non-zero records are marked.
 *
 * @typedef {{key: string, name: string, hue: "k" | "q" | "v" | "prompt" | "fault" | "ink-2", counts?: boolean}} Row
 */

/** @type {Row[]} */
const ROWS = [
  { key: "running", name: "running", hue: "v" },
  { key: "waiting", name: "waiting", hue: "q" },
  { key: "held", name: "blocks_held", hue: "k" },
  { key: "cached", name: "blocks_cached", hue: "prompt" },
  { key: "tokens_held", name: "tokens_held", hue: "k" },
  { key: "hit", name: "hit", hue: "prompt", counts: true },
  { key: "evictions", name: "evictions", hue: "q", counts: true },
  { key: "preemptions", name: "preemptions", hue: "fault", counts: true },
  { key: "seconds", name: "seconds", hue: "ink-2" },
];
/** Rows of a monitored server, as far as its events and metrics provide them. @type {Row[]} */
const OBSERVED_ROWS = [
  { key: "running", name: "running", hue: "v" },
  { key: "waiting", name: "waiting", hue: "q" },
  { key: "usage", name: "usage", hue: "k" },
  { key: "cached", name: "blocks_cached", hue: "prompt" },
  { key: "hit", name: "hit", hue: "prompt", counts: true },
  { key: "removed", name: "evictions", hue: "q", counts: true },
  { key: "preemptions", name: "preemptions", hue: "fault", counts: true },
];
const all = computed(() => (own.large.value?.header.observed ? OBSERVED_ROWS : ROWS));
/** @param {Row} row */
const isReported = ({ name }) => overview.value?.series.includes(name) ?? true;
const rows = computed(() => all.value.filter(isReported));
const ROW_HEIGHT = 18; // px
const LABEL_WIDTH = 116; // px
const PHONE_LABEL_WIDTH = 78; // px
const PHONE_WIDTH = 560; // px; a narrower panel has narrow labels
const TABLE_BINS = 20;

export function MetricRows() {
  const [pointed, setPointed] = useState(/** @type {{bin: number, row: number} | null} */ (null));
  const binned = /** @type {Bins} */ (bins.value);
  const canvas = usePainter(
    () => [bins.value, place.value, themeVersion.value],
    (/** @type {HTMLCanvasElement} */ element, { width }) => paint(element, width, pointed),
  );
  /** @param {PointerEvent} event */
  const placeOf = (event) => {
    const element = /** @type {HTMLCanvasElement} */ (event.currentTarget);
    const { x, y } = pointIn(event, element);
    const label = labelWidth(element.clientWidth);
    const count = binned.edges.length - 1;
    const share = Math.max(0, Math.min(1 - 1e-9, (x - label) / (element.clientWidth - label)));
    return {
      bin: Math.floor(share * count),
      row: Math.max(0, Math.min(rows.value.length - 1, Math.floor(y / ROW_HEIGHT))),
    };
  };
  const last = (overview.value?.num_surveyed ?? 1) - 1;
  const unreported = all.value.filter((row) => !isReported(row));
  return html`<figure class="metric-rows">
    <figcaption>${t("large.metrics")}</figcaption>
    <canvas ref=${canvas} id="metric-rows" style=${{ height: `${ROW_HEIGHT * rows.value.length}px` }}
      tabindex="0" role="slider"
      aria-label=${t("large.metrics.slider")} aria-valuemin="-1" aria-valuemax=${last} aria-valuenow=${place.value}
      aria-valuetext=${valuesText(binned, binAt(binned, place.value))}
      onPointerMove=${(/** @type {PointerEvent} */ event) => setPointed(placeOf(event))}
      onPointerLeave=${() => setPointed(null)}
      onClick=${(/** @type {PointerEvent} */ event) => seek(binned, placeOf(event))}
      data-arrows onKeyDown=${(/** @type {KeyboardEvent} */ event) => onKey(event, binned, last)}></canvas>
    <p class="large-pointed num" role="status">${
      pointed ? valuesText(binned, pointed.bin, pointed.row) : t("large.metrics.point")
    }</p>
    ${
      unreported.length
        ? html`<p class="hint">${t("large.metrics.unsaid", {
            names: unreported.map(({ key }) => t(`large.row.${key}`)).join(t("join.list")),
          })}</p>`
        : null
    }
    ${useMemo(() => html`<${Table} bins=${binned} />`, [binned, language.value])}
  </figure>`;
}

/** @param {number} width */
const labelWidth = (width) => (width < PHONE_WIDTH ? PHONE_LABEL_WIDTH : LABEL_WIDTH);

/**
 * Show the record of a bin at which the row's metric is largest.
 * @param {Bins} binned
 * @param {{bin: number, row: number}} target
 */
async function seek({ edges }, { bin, row }) {
  const [first, end] = [edges[bin], edges[bin + 1]];
  jumpTo(end - first > 1 ? await largestIn(rows.value[row].name, first, end) : first);
}

/** @param {KeyboardEvent} event @param {Bins} binned @param {number} last */
function onKey(event, { edges }, last) {
  const at = place.value;
  const bin = binAt({ edges }, at);
  const to = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    PageUp: edges[Math.max(0, bin - 10)],
    PageDown: edges[Math.min(edges.length - 2, bin + 10)],
    Home: -1,
    End: last,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  jumpTo(Math.min(to, last));
}

/** @param {Row} row @param {number} value */
const valueText = ({ key }, value) =>
  Number.isNaN(value)
    ? t("large.metrics.unknown")
    : key === "seconds"
      ? secondsText(value)
      : key === "usage"
        ? percentText(value)
        : ["held", "cached"].includes(key) && overview.value
          ? percentText(value / overview.value.num_blocks)
          : grouped(value);

/** Describe a bin, for one row or for all. @param {Bins} binned @param {number} bin @param {number} [only] */
function valuesText(binned, bin, only) {
  const [first, last] = [binned.edges[bin], binned.edges[bin + 1] - 1];
  const shownRows = only === undefined ? rows.value : [rows.value[only]];
  const parts = shownRows.map((row) => {
    const [low, high] = [binned[`${row.name}_min`][bin], binned[`${row.name}_max`][bin]];
    const range = low === high ? valueText(row, low) : `${valueText(row, low)} – ${valueText(row, high)}`;
    const sum = row.counts ? t("large.metrics.sum", { n: grouped(binned[`${row.name}_sum`][bin]) }) : "";
    return `${t(`large.row.${row.key}`)} ${range}${sum}`;
  });
  const at = t("large.metrics.stretch", { first: grouped(first), last: grouped(last) });
  return `${at} · ${secondsText(binned.at_max[bin])} · ${parts.join(" · ")}`;
}

/** The metrics as a table of numbers. @param {{bins: Bins}} props */
function Table({ bins: binned }) {
  const count = binned.edges.length - 1;
  const step = Math.ceil(count / TABLE_BINS);
  const from = Array.from({ length: Math.ceil(count / step) }, (_, i) => i * step);
  /** @param {Row} row @param {number} start */
  const maxOf = (row, start) =>
    binned[`${row.name}_max`]
      .subarray(start, start + step)
      .reduce((a, b) => (Number.isNaN(b) || b <= a ? a : b), Number.NaN);
  return html`<details class="large-table"><summary>${t("large.metrics.table")}</summary>
    <div class="large-table-scroll"><table class="num"><thead><tr><th scope="col">${t(
      "large.record",
    )}</th>${rows.value.map(
      (row) => html`<th scope="col" key=${row.key}>${t(`large.row.${row.key}`)}</th>`,
    )}</tr></thead>
    <tbody>${from.map(
      (start) =>
        html`<tr key=${start}><th scope="row"><button onClick=${() => jumpTo(binned.edges[start])}>${grouped(
          binned.edges[start],
        )}</button></th>${rows.value.map(
          (row) => html`<td key=${row.key}>${valueText(row, maxOf(row, start))}</td>`,
        )}</tr>`,
    )}</tbody></table></div></details>`;
}

/**
 * Cached painting of everything that does not depend on the shown record.
 * @type {{key: unknown[], canvas: HTMLCanvasElement} | null}
 */
let picture = null;

/** @param {HTMLCanvasElement} canvas @param {number} width @param {{bin: number, row: number} | null} pointed */
function paint(canvas, width, pointed) {
  const binned = bins.value;
  if (!binned) return;
  const [high, label, palette] = [ROW_HEIGHT * rows.value.length, labelWidth(width), colours()];
  const key = [binned, width, themeVersion.value, language.value, globalThis.devicePixelRatio];
  if (!picture || picture.key.some((part, i) => part !== key[i])) {
    picture = { key, canvas: document.createElement("canvas") };
    paintRows(prepare(picture.canvas, width, high), binned, width, getComputedStyle(canvas).fontFamily);
  }
  const c = prepare(canvas, width, high);
  c.drawImage(picture.canvas, 0, 0, width, high);
  const binWidth = (width - label) / (binned.edges.length - 1);
  const x = label + (binAt(binned, Math.max(0, place.value)) + 0.5) * binWidth;
  c.fillStyle = palette.focus;
  c.fillRect(x - 1, 0, 2, high);
  if (!pointed) return;
  c.fillStyle = alpha(palette.ink, 0.25);
  c.fillRect(label + pointed.bin * binWidth, 0, Math.max(1, binWidth), high);
}

/** @param {CanvasRenderingContext2D} c @param {Bins} binned @param {number} width @param {string} font */
function paintRows(c, binned, width, font) {
  const [label, palette, count] = [labelWidth(width), colours(), binned.edges.length - 1];
  const binWidth = (width - label) / count;
  c.font = `12px ${font}`;
  c.textBaseline = "middle";
  rows.value.forEach((row, i) => {
    const [top, colour] = [i * ROW_HEIGHT, palette[row.hue]];
    const [low, high] = [binned[`${row.name}_min`], binned[`${row.name}_max`]];
    const maxOf = Math.max(
      1e-12,
      high.reduce((a, b) => (b > a ? b : a), 0), // NaN (unknown) never compares as larger
    );
    c.fillStyle = palette["ink-2"];
    c.fillText(t(`large.row.${row.key}`), 0, top + ROW_HEIGHT / 2, label - 4);
    /** @param {number} value */
    const y = (value) => top + ROW_HEIGHT - 2 - (value / maxOf) * (ROW_HEIGHT - 5);
    const minHeight = row.counts ? 3 : 1.5; // px, so that a single event is visible
    for (let bin = 0; bin < count; bin++) {
      if (!high[bin]) continue;
      const x = label + bin * binWidth;
      c.fillStyle = alpha(colour, 0.35); // the minimum in pale colour; above it the maximum
      c.fillRect(x, y(low[bin]), Math.max(binWidth, 0.5), top + ROW_HEIGHT - 2 - y(low[bin]));
      c.fillStyle = colour;
      const upper = Math.min(y(high[bin]), top + ROW_HEIGHT - 2 - minHeight);
      c.fillRect(x, upper, Math.max(binWidth, row.counts ? 1.5 : 1), Math.max(minHeight, y(low[bin]) - upper));
    }
    c.fillStyle = palette.line;
    c.fillRect(0, top + ROW_HEIGHT - 1, width, 1);
  });
}
