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
 * `key`: of the label; `name`: of the series; `hue`: colour of the palette; `counts`: mostly zero, so that non-zero
 * records are marked.
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
/** Rows of a monitored server, where its events and metrics provide them. @type {Row[]} */
const OBSERVED = [
  { key: "running", name: "running", hue: "v" },
  { key: "waiting", name: "waiting", hue: "q" },
  { key: "usage", name: "usage", hue: "k" },
  { key: "cached", name: "blocks_cached", hue: "prompt" },
  { key: "hit", name: "hit", hue: "prompt", counts: true },
  { key: "removed", name: "evictions", hue: "q", counts: true },
  { key: "preemptions", name: "preemptions", hue: "fault", counts: true },
];
const all = computed(() => (own.large.value?.header.observed ? OBSERVED : ROWS));
/** @param {Row} row */
const isReported = ({ name }) => overview.value?.series.includes(name) ?? true;
const rows = computed(() => all.value.filter(isReported));
const HIGH = 18; // px of a row
const LABEL = 116; // px
const PHONE_LABEL = 78; // px
const NARROW = 560; // px
const TABLE_BINS = 20;

export function MetricRows() {
  const [pointed, setPointed] = useState(/** @type {{bin: number, row: number} | null} */ (null));
  const found = /** @type {Bins} */ (bins.value);
  const canvas = usePainter(
    () => [bins.value, place.value, themeVersion.value],
    (/** @type {HTMLCanvasElement} */ element, { width }) => paint(element, width, pointed),
  );
  /** @param {PointerEvent} event */
  const placeOf = (event) => {
    const element = /** @type {HTMLCanvasElement} */ (event.currentTarget);
    const { x, y } = pointIn(event, element);
    const label = labelOf(element.clientWidth);
    const count = found.edges.length - 1;
    const share = Math.max(0, Math.min(1 - 1e-9, (x - label) / (element.clientWidth - label)));
    return { bin: Math.floor(share * count), row: Math.max(0, Math.min(rows.value.length - 1, Math.floor(y / HIGH))) };
  };
  const last = (overview.value?.num_surveyed ?? 1) - 1;
  const unsaid = all.value.filter((row) => !isReported(row));
  return html`<figure class="metric-rows">
    <figcaption>${t("large.metrics")}</figcaption>
    <canvas ref=${canvas} id="metric-rows" style=${{ height: `${HIGH * rows.value.length}px` }}
      tabindex="0" role="slider"
      aria-label=${t("large.metrics.slider")} aria-valuemin="-1" aria-valuemax=${last} aria-valuenow=${place.value}
      aria-valuetext=${valuesText(found, binAt(found, place.value))}
      onPointerMove=${(/** @type {PointerEvent} */ event) => setPointed(placeOf(event))}
      onPointerLeave=${() => setPointed(null)}
      onClick=${(/** @type {PointerEvent} */ event) => seek(found, placeOf(event))}
      data-arrows onKeyDown=${(/** @type {KeyboardEvent} */ event) => keyed(event, found, last)}></canvas>
    <p class="large-pointed num" role="status">${
      pointed ? valuesText(found, pointed.bin, pointed.row) : t("large.metrics.point")
    }</p>
    ${
      unsaid.length
        ? html`<p class="hint">${t("large.metrics.unsaid", {
            names: unsaid.map(({ key }) => t(`large.row.${key}`)).join(t("join.list")),
          })}</p>`
        : null
    }
    ${useMemo(() => html`<${Table} bins=${found} />`, [found, language.value])}
  </figure>`;
}

/** @param {number} width */
const labelOf = (width) => (width < NARROW ? PHONE_LABEL : LABEL);

/**
 * Show the record of a bin at which the row's metric is largest.
 * @param {Bins} found
 * @param {{bin: number, row: number}} where
 */
async function seek({ edges }, { bin, row }) {
  const [first, end] = [edges[bin], edges[bin + 1]];
  jumpTo(end - first > 1 ? await largestIn(rows.value[row].name, first, end) : first);
}

/** @param {KeyboardEvent} event @param {Bins} found @param {number} last */
function keyed(event, { edges }, last) {
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

/** Describe a bin, for one row or for all. @param {Bins} found @param {number} bin @param {number} [only] */
function valuesText(found, bin, only) {
  const [first, last] = [found.edges[bin], found.edges[bin + 1] - 1];
  const those = only === undefined ? rows.value : [rows.value[only]];
  const parts = those.map((row) => {
    const [low, high] = [found[`${row.name}_min`][bin], found[`${row.name}_max`][bin]];
    const range = low === high ? valueText(row, low) : `${valueText(row, low)} – ${valueText(row, high)}`;
    const sum = row.counts ? t("large.metrics.sum", { n: grouped(found[`${row.name}_sum`][bin]) }) : "";
    return `${t(`large.row.${row.key}`)} ${range}${sum}`;
  });
  const at = t("large.metrics.stretch", { first: grouped(first), last: grouped(last) });
  return `${at} · ${secondsText(found.at_max[bin])} · ${parts.join(" · ")}`;
}

/** The metrics as a table of numbers. @param {{bins: Bins}} props */
function Table({ bins: found }) {
  const count = found.edges.length - 1;
  const step = Math.ceil(count / TABLE_BINS);
  const from = Array.from({ length: Math.ceil(count / step) }, (_, i) => i * step);
  /** @param {Row} row @param {number} start */
  const most = (row, start) =>
    found[`${row.name}_max`]
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
        html`<tr key=${start}><th scope="row"><button onClick=${() => jumpTo(found.edges[start])}>${grouped(
          found.edges[start],
        )}</button></th>${rows.value.map(
          (row) => html`<td key=${row.key}>${valueText(row, most(row, start))}</td>`,
        )}</tr>`,
    )}</tbody></table></div></details>`;
}

/**
 * Cached painting of everything that does not depend on the shown record.
 * @type {{key: unknown[], canvas: HTMLCanvasElement} | null}
 */
let drawn = null;

/** @param {HTMLCanvasElement} canvas @param {number} width @param {{bin: number, row: number} | null} pointed */
function paint(canvas, width, pointed) {
  const found = bins.value;
  if (!found) return;
  const [high, label, palette] = [HIGH * rows.value.length, labelOf(width), colours()];
  const key = [found, width, themeVersion.value, language.value, globalThis.devicePixelRatio];
  if (!drawn || drawn.key.some((part, i) => part !== key[i])) {
    drawn = { key, canvas: document.createElement("canvas") };
    paintRows(prepare(drawn.canvas, width, high), found, width, getComputedStyle(canvas).fontFamily);
  }
  const c = prepare(canvas, width, high);
  c.drawImage(drawn.canvas, 0, 0, width, high);
  const wide = (width - label) / (found.edges.length - 1);
  const x = label + (binAt(found, Math.max(0, place.value)) + 0.5) * wide;
  c.fillStyle = palette.focus;
  c.fillRect(x - 1, 0, 2, high);
  if (!pointed) return;
  c.fillStyle = alpha(palette.ink, 0.25);
  c.fillRect(label + pointed.bin * wide, 0, Math.max(1, wide), high);
}

/** @param {CanvasRenderingContext2D} c @param {Bins} found @param {number} width @param {string} font */
function paintRows(c, found, width, font) {
  const [label, palette, count] = [labelOf(width), colours(), found.edges.length - 1];
  const wide = (width - label) / count;
  c.font = `12px ${font}`;
  c.textBaseline = "middle";
  rows.value.forEach((row, i) => {
    const [top, colour] = [i * HIGH, palette[row.hue]];
    const [low, high] = [found[`${row.name}_min`], found[`${row.name}_max`]];
    const most = Math.max(
      1e-12,
      high.reduce((a, b) => (b > a ? b : a), 0), // NaN (unknown) never compares as larger
    );
    c.fillStyle = palette["ink-2"];
    c.fillText(t(`large.row.${row.key}`), 0, top + HIGH / 2, label - 4);
    /** @param {number} value */
    const y = (value) => top + HIGH - 2 - (value / most) * (HIGH - 5);
    const least = row.counts ? 3 : 1.5; // px: keeps a single event visible
    for (let bin = 0; bin < count; bin++) {
      if (!high[bin]) continue;
      const x = label + bin * wide;
      c.fillStyle = alpha(colour, 0.35); // the minimum in pale colour; above it the maximum
      c.fillRect(x, y(low[bin]), Math.max(wide, 0.5), top + HIGH - 2 - y(low[bin]));
      c.fillStyle = colour;
      const upTo = Math.min(y(high[bin]), top + HIGH - 2 - least);
      c.fillRect(x, upTo, Math.max(wide, row.counts ? 1.5 : 1), Math.max(least, y(low[bin]) - upTo));
    }
    c.fillStyle = palette.line;
    c.fillRect(0, top + HIGH - 1, width, 1);
  });
}
