// Every layer and head at once, as small multiples of the causal matrix or of the row in flight. Query heads that share
// a KV head stand together under a bracket. Choose one to see it large.

import { rowOf, strongest } from "../../core/attention.js";
import { tellingHeads } from "../../core/heads.js";
import { labelText } from "../../core/labels.js";
import { usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { useBox } from "../../kit/measure.js";
import { Segmented } from "../../kit/segmented.js";
import { hideTip, showTip } from "../../kit/tooltip.js";
import { settings } from "../../state/settings.js";
import { captureVersion, head, layer, log, sequenceView } from "../../state/store.js";
import { probabilityText, t } from "../../tell/words.js";
import { headsLayout } from "./heads_geometry.js";
import { sources } from "./matrix_image.js";
import { attended, paint } from "./overview_paint.js";

/**
 * @typedef {import("./heads_geometry.js").HeadsLayout} HeadsLayout
 * @typedef {import("../../kit/html.js").Children} Children
 */

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
