// Every layer and head at once, as small multiples of the causal matrix or of the row in flight. Query heads that share
// a KV head stand together under a bracket. Choose one to see it large.

import { computed } from "../../../vendor/signals/signals.js";
import { canFetch, pooled, rowOf, strongest } from "../../core/attention.js";
import { tellingHeads } from "../../core/heads.js";
import { labelText } from "../../core/labels.js";
import { contextOf, prepare, usePainter } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { useBox } from "../../kit/measure.js";
import { Segmented } from "../../kit/segmented.js";
import { hideTip, showTip } from "../../kit/tooltip.js";
import { wantLayer } from "../../net/commands.js";
import { phase } from "../../state/moment.js";
import { settings } from "../../state/settings.js";
import { captureVersion, head, layer, log, sequenceView } from "../../state/store.js";
import { probabilityText, t } from "../../tell/words.js";
import { headsLayout } from "./heads_geometry.js";
import { sources } from "./matrix_image.js";
import { lookupTable } from "./rows.js";

/**
 * @typedef {import("./heads_geometry.js").HeadsLayout} HeadsLayout
 * @typedef {import("../../state/store.js").View} View
 * @typedef {import("../../kit/html.js").Children} Children
 * @typedef {{record: number, seq_id: number, position: number}} Source
 */

const ROWS = 32; // newest queries in a small matrix
const BINS = 64; // stretches of keys at most
const FETCHED_AT_ONCE = 64;
const LINES = 1 << 14; // pooled rows kept

/** Whether the row in flight has been attended yet: it may be shown as far as an earlier sub-step. */
const attended = computed(() => phase("attend") > 0);

/** @param {string} name */
const title = (name) => t(`overview.${name}`);

export function Overview() {
  const [box, size] = useBox();
  const model = log.value?.header.model;
  const square = settings.overview.value === "matrix";
  const at =
    model && size.width
      ? headsLayout(model, { layer: layer.value, head: head.value }, size.width, size.height, square)
      : null;
  const ref = usePainter(
    () => [sequenceView.value, attended.value, themeVersion.value, captureVersion.value],
    (element, { width, height }) => paint(element.querySelector("canvas"), width, height),
  );
  /** @param {HTMLElement | null} element */
  const both = (element) => {
    box.current = ref.current = element;
  };
  const has = Boolean(sequenceView.value?.numFilled);
  return html`<section class="panel overview">
    <h3 class="panel-title">
      ${t("overview.title")} <${Fidelity} kind="captured" />
      <${Segmented} label=${t("overview.what")} name="overview" choices=${["matrix", "row"]}
        text=${title} />
    </h3>
    <div class="panel-canvas" ref=${both}>
      <canvas aria-hidden="true"></canvas>
      ${has ? null : html`<p class="hint">${t("overview.empty")}</p>`} ${has && at ? html`<${Cells} at=${at} />` : null}
    </div>
    <${Foot} at=${at} model=${model} />
  </section>`;
}

/**
 * The cells as buttons over the picture: what can be focused and named.
 *
 * @param {{at: HeadsLayout}} props
 */
function Cells({ at }) {
  const { group } = at;
  return html`<div class="cells" role="grid" aria-label=${t("overview.title")} data-arrows onKeyDown=${move}
    onPointerLeave=${hideTip}>
    ${at.layers.map(
      (l) => html`<div role="row" key=${l}>
        <span class="cell-layer num" role="rowheader" aria-label=${t("overview.layer", { layer: l })}
          style=${{ top: `${at.y(l)}px`, height: `${at.down}px` }}>${l}</span>
        ${at.heads.map((h) => {
          const chosen = l === layer.value && h === head.value;
          const style = { left: `${at.x(h)}px`, top: `${at.y(l)}px`, width: `${at.across}px`, height: `${at.down}px` };
          /** @param {Event} event */
          const show = ({ currentTarget }) => showTip(/** @type {Element} */ (currentTarget), cellLines(l, h, group));
          /** @param {Event} event */
          const showFocused = (event) =>
            /** @type {Element} */ (event.currentTarget).matches(":focus-visible") && show(event);
          return html`<button
            key=${h}
            role="gridcell"
            class="cell"
            data-cell=${`${l}/${h}`}
            aria-selected=${chosen}
            aria-label=${t("overview.cell", { layer: l, head: h, kv: Math.floor(h / group) })}
            tabindex=${chosen ? 0 : -1}
            style=${style}
            onClick=${() => choose(l, h)}
            onPointerEnter=${show}
            onFocus=${showFocused}
            onBlur=${hideTip}
          ></button>`;
        })}
      </div>`,
    )}
    ${at.brackets.map(
      ({ kv, left, width }) => html`<span class="bracket num" aria-hidden="true" key=${`kv${kv}`}
      style=${{ left: `${left}px`, width: `${width}px` }}>${t(width > 56 ? "overview.kv" : "overview.kv_short", {
        kv,
      })}</span>`,
    )}
  </div>`;
}

/**
 * Which part is shown when not all fits, and ways to the rest.
 *
 * @param {{at: HeadsLayout | null, model: import("../../core/trace.js").ModelFacts | undefined}} props
 */
function Foot({ at, model }) {
  if (!at || !model || (at.heads.length === model.num_heads && at.layers.length === model.num_layers))
    return html`<p
      class="panel-foot">${t(settings.overview.value === "matrix" ? "overview.axes_matrix" : "overview.axes")}</p>`;
  /** @type {(key: string, from: number, count: number, total: number, set: (to: number) => void) => Children} */
  const page = (key, from, count, total, set) => {
    /** @type {(to: number, name: string, sign: string) => Children} */
    const go = (to, name, sign) =>
      html`<button class="page" disabled=${to < 0 || to >= total} aria-label=${t(name)}
        onClick=${() => set(Math.max(0, Math.min(total - 1, to)))}>${sign}</button>`;
    if (count === total) return null;
    return html`<span
      class="pager num">${go(from - 1, `overview.${key}_before`, "‹")}${t(`overview.${key}_shown`, {
        from,
        to: from + count - 1,
        total,
      })}${go(from + count, `overview.${key}_after`, "›")}</span>`;
  };
  return html`<p class="panel-foot">
    ${page("layers", at.layers[0], at.layers.length, model.num_layers, (l) => choose(l, head.value))}
    ${page("heads", at.heads[0], at.heads.length, model.num_heads, (h) => choose(layer.value, h))}
  </p>`;
}

/**
 * @param {number} l
 * @param {number} h
 */
function choose(l, h) {
  settings.layer.value = l;
  settings.head.value = h;
}

/** @type {Record<string, [number, number]>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** @param {KeyboardEvent} event */
function move(event) {
  const model = log.value?.header.model;
  if (!(event.key in MOVES) || !model) return;
  event.preventDefault();
  const [down, right] = MOVES[event.key];
  const grid = /** @type {HTMLElement} */ (event.currentTarget);
  choose(
    Math.max(0, Math.min(model.num_layers - 1, layer.value + down)),
    Math.max(0, Math.min(model.num_heads - 1, head.value + right)),
  );
  requestAnimationFrame(() => {
    const chosen = /** @type {HTMLElement | null} */ (grid.querySelector('[aria-selected="true"]'));
    chosen?.focus();
  });
}

/**
 * What a cell says: its place, its KV head, the key that its newest query read most.
 *
 * @param {number} l
 * @param {number} h
 * @param {number} group
 */
function cellLines(l, h, group) {
  const now = sequenceView.value;
  if (!now) return [];
  const { model } = now.log.header;
  const lines = [t("overview.cell", { layer: l, head: h, kv: Math.floor(h / group) })];
  const query = now.query ?? now.numFilled - 1;
  const row = rowOf(now.log, sources.value[query], l, h);
  /** @param {number} p */
  const token = (p) => t("matrix.token", { token: labelText(now.labels[p]), position: p });
  if (row) {
    const { position, weight } = strongest(row);
    lines.push(t("overview.strongest", { query: token(query), key: token(position), weight: probabilityText(weight) }));
  } else lines.push(t("matrix.unknown"));
  for (const { pattern, mean_weight, uniform, ...place } of tellingHeads(model))
    if (place.layer === l && place.head === h)
      lines.push(
        t("overview.known", {
          pattern: t(`stage.pattern.${pattern}`),
          weight: probabilityText(mean_weight),
          uniform: probabilityText(uniform),
        }),
      );
  return lines;
}

// ── Painting ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** @type {Map<string, Float32Array>} a pooled row never changes */
const lines = new Map();
/** @type {{canvas: HTMLCanvasElement, lookup: number[][], theme: number} | null} */
let tile = null;

/**
 * The row of a source, pooled and as shares of its largest weight; null when it is not here.
 *
 * @param {View} now
 * @param {Source} source
 * @param {number} l
 * @param {number} h
 * @param {number} width
 * @param {number} bins
 */
function lineOf(now, source, l, h, width, bins) {
  const key = `${now.log.id}/${source.record}/${source.seq_id}/${source.position}/${l}/${h}/${width}`;
  const known = lines.get(key);
  if (known && known.length >= bins) return known;
  const row = rowOf(now.log, source, l, h);
  if (!row) return null;
  const made = pooled(row, width, bins).map((weight) => weight / (row.max || 1));
  lines.set(key, made);
  if (lines.size > LINES) lines.delete(lines.keys().next().value ?? "");
  return made;
}

/**
 * @param {HTMLCanvasElement | null} canvas
 * @param {number} width
 * @param {number} height
 */
function paint(canvas, width, height) {
  if (!canvas) return;
  const c = prepare(canvas, width, height);
  const now = sequenceView.value;
  const model = log.value?.header.model;
  if (!now?.numFilled || !model) return;
  const palette = colours();
  const square = settings.overview.value === "matrix";
  const at = headsLayout(model, now, width, height, square);
  const last = now.entry && !attended.value ? now.entry.start : now.numFilled; // rows shown
  const first = square ? Math.max(0, last - ROWS) : Math.max(0, last - 1);
  const stretch = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, last) / BINS)));
  const bins = Math.max(1, Math.ceil(last / stretch));
  if (tile?.theme !== themeVersion.peek())
    tile = {
      canvas: tile?.canvas ?? document.createElement("canvas"),
      lookup: lookupTable(),
      theme: themeVersion.peek(),
    };
  c.imageSmoothingEnabled = false;
  for (const l of at.layers)
    for (const h of at.heads) {
      const [x, y] = [at.x(h), at.y(l)];
      c.fillStyle = palette["line-2"];
      c.globalAlpha = 0.45;
      c.fillRect(x, y, at.across, at.down);
      c.globalAlpha = 1;
      if (last > 0) paintCell(c, now, { l, h, first, last, stretch, bins }, x, y, at);
      if (l === now.layer && h === now.head) {
        c.strokeStyle = palette.q;
        c.lineWidth = 2;
        c.strokeRect(x - 1, y - 1, at.across + 2, at.down + 2);
      }
    }
  fetchMissing(now, at.layers, first, last);
}

/**
 * @param {CanvasRenderingContext2D} c
 * @param {View} now
 * @param {{l: number, h: number, first: number, last: number, stretch: number, bins: number}} cell
 * @param {number} x
 * @param {number} y
 * @param {HeadsLayout} at
 */
function paintCell(c, now, { l, h, first, last, stretch, bins }, x, y, at) {
  if (!tile) return;
  const { canvas, lookup } = tile;
  canvas.width = bins; // also clears it
  canvas.height = last - first;
  const context = contextOf(canvas);
  const image = context.createImageData(bins, last - first);
  for (let query = first; query < last; query++) {
    const source = sources.peek()[query];
    const line = source && lineOf(now, source, l, h, stretch, bins);
    if (!line) continue;
    for (let bin = 0; bin < bins; bin++)
      if (bin * stretch <= query || line[bin] > 0)
        image.data.set(lookup[1 + Math.round(254 * line[bin])], 4 * ((query - first) * bins + bin));
  }
  context.putImageData(image, 0, 0);
  c.drawImage(canvas, 0, 0, bins, last - first, x, y, at.across, at.down);
}

/**
 * Ask for layers that did not travel with their records: the newest row's first.
 *
 * @param {View} now
 * @param {number[]} layers
 * @param {number} first
 * @param {number} last
 */
function fetchMissing(now, layers, first, last) {
  let asked = 0;
  for (let query = last - 1; query >= first && asked < FETCHED_AT_ONCE; query--)
    for (const l of layers) {
      const source = sources.peek()[query];
      if (source && canFetch(now.log, source, l) && asked++ < FETCHED_AT_ONCE) wantLayer(source.record, l);
    }
}
