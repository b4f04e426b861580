// All layers and heads at once: small multiples of the causal matrix or of the current row if they fit, otherwise a
// map from which a single layer can be opened. Choosing a head enlarges it.

import { signal } from "../../../vendor/signals/signals.js";
import { t } from "../../i18n/words.js";
import { usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Segmented } from "../../kit/inputs.js";
import { lazy } from "../../kit/lazy.js";
import { useBox } from "../../kit/measure.js";
import { hideTip, showTip } from "../../kit/tooltip.js";
import { settings } from "../../state/settings.js";
import { captureVersion, head, layer, log, sequenceView } from "../../state/store.js";
import { cellLines, choose, headName, moveFor } from "./head_words.js";
import { headsLayout, layerLayout } from "./heads_geometry.js";
import { attended, paint } from "./overview_paint.js";

/** @import {ModelFacts} from "../../core/trace.js" */
/** @import {HeadsLayout} from "./heads_geometry.js" */

const TITLE_AND_FOOT = 50; // px of title and foot
const LOW = 150; // px; in a lower panel the map's legend is beside the map
const WIDE = 270; // px; in a narrower panel the single-layer button is below the picture

/** Whether a single layer is shown instead of the map. */
const isSingleLayer = signal(false);
const toLayer = () => (isSingleLayer.value = true);
const toAll = () => (isSingleLayer.value = false);

/** Loaded lazily: only larger models have a map. */
const HeadMap = lazy(
  () => import("./head_map.js").then((m) => m.HeadMap),
  () => html`<div class="panel-canvas"></div>`,
);

export function Overview() {
  const [box, size] = useBox();
  const model = log.value?.header.model;
  const square = settings.overview.value === "matrix";
  const isMap =
    model !== undefined && size.width > 0 && !headsLayout(model, size.width, size.height - TITLE_AND_FOOT, square);
  const isLayer = isMap && isSingleLayer.value;
  const hasRoles = isMap && !isLayer && square;
  /** @param {string} name */
  const title = (name) => t(isMap && !isLayer && name === "matrix" ? "overview.roles" : `overview.${name}`);
  return html`<section class="panel overview" ref=${box}>
    <h3 class="panel-title">
      ${t("overview.title")} ${
        hasRoles
          ? html`<${Fidelity} kind="derived" formula=${t("overview.roles_formula")} />`
          : html`<${Fidelity} kind="captured" />`
      }
      <${Segmented} label=${t("overview.what")} name="overview" choices=${["matrix", "row"]}
        text=${title} />
      ${isMap && size.width >= WIDE ? html`<${LayerToggle} isLayer=${isLayer} />` : null}
    </h3>
    ${
      isMap && !isLayer && sequenceView.value?.numFilled
        ? html`<${HeadMap} zoom=${toLayer} low=${size.height < LOW} />`
        : html`<${Pictures} model=${model} isLayer=${isLayer} isNarrow=${size.width < WIDE} />`
    }
  </section>`;
}

/** Toggle between the map and a single layer. @param {{isLayer: boolean}} props */
function LayerToggle({ isLayer }) {
  return html`<button class="to-layer num" id="overview-layer" aria-pressed=${isLayer}
    onClick=${isLayer ? toAll : toLayer}>${
      isLayer ? t("overview.all") : t("overview.layer", { layer: layer.value })
    }</button>`;
}

/**
 * Small picture of each head, for all layers or one. `isNarrow` puts the layer toggle below the picture.
 * @param {{model: ModelFacts | undefined, isLayer: boolean, isNarrow: boolean}} props
 */
function Pictures({ model, isLayer, isNarrow }) {
  const [box, size] = useBox();
  const square = settings.overview.value === "matrix";
  const { width, height } = size;
  const isReady = model && width;
  const layout = !isReady
    ? null
    : isLayer
      ? layerLayout(model, layer.value, width, height, square)
      : headsLayout(model, width, height, square);
  const ref = usePainter(
    () => [sequenceView.value, attended.value, themeVersion.value, captureVersion.value],
    (element, drawn) => layout && paint(element.querySelector("canvas"), drawn, layout),
  );
  /** @param {HTMLElement | null} element */
  const setElement = (element) => {
    box.current = ref.current = element;
  };
  const hasRows = Boolean(sequenceView.value?.numFilled);
  const axes = isLayer ? "layer_axes" : "axes";
  return html`<div class="panel-canvas" ref=${setElement}>
      <canvas aria-hidden="true"></canvas>
      ${hasRows ? null : html`<p class="hint">${t("overview.empty")}</p>`}
      ${hasRows && layout ? html`<${Cells} layout=${layout} />` : null}
    </div>
    <p class="panel-foot">${t(square ? `overview.${axes}_matrix` : `overview.${axes}`, { layer: layer.value })}
      ${isLayer && isNarrow ? html`<${LayerToggle} isLayer />` : null}</p>`;
}

/** The cells as buttons over the picture, for focus and accessible names. @param {{layout: HeadsLayout}} props */
function Cells({ layout }) {
  return html`<div class="cells" role="grid" aria-label=${t("overview.title")} data-arrows
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => move(event, layout)} onPointerLeave=${hideTip}>
    ${layout.lines.map(
      (line) => html`<div role="row" key=${line[0].head ? line[0].head : line[0].layer}>
        ${
          layout.isLayer
            ? null
            : html`<span class="cell-layer num" role="rowheader"
          aria-label=${t("overview.layer", { layer: line[0].layer })}
          style=${{ top: `${line[0].y}px`, height: `${layout.cellHeight}px` }}>${line[0].layer}</span>`
        }
        ${line.map((cell) => html`<${Cell} key=${cell.head} layout=${layout} cell=${cell} />`)}
      </div>`,
    )}
    ${layout.brackets.map(
      ({ kv, left, width }) => html`<span class="bracket num" aria-hidden="true" key=${`kv${kv}`}
      style=${{ left: `${left}px`, width: `${width}px` }}>${t(width > 56 ? "overview.kv" : "overview.kv_short", {
        kv,
      })}</span>`,
    )}
  </div>`;
}

/** @param {{layout: HeadsLayout, cell: import("./heads_geometry.js").Cell}} props */
function Cell({ layout, cell }) {
  const { layer: l, head: h } = cell;
  const chosen = l === layer.value && h === head.value;
  const style = {
    left: `${cell.x}px`,
    top: `${cell.y}px`,
    width: `${layout.cellWidth}px`,
    height: `${layout.cellHeight}px`,
  };
  /** @param {Event} event */
  const show = ({ currentTarget }) => showTip(/** @type {Element} */ (currentTarget), cellLines(l, h));
  /** @param {Event} event */
  const showFocused = (event) => /** @type {Element} */ (event.currentTarget).matches(":focus-visible") && show(event);
  return html`<button
    role="gridcell"
    class="cell"
    data-cell=${`${l}/${h}`}
    aria-selected=${chosen}
    aria-label=${headName(l, h)}
    tabindex=${chosen ? 0 : -1}
    style=${style}
    onClick=${() => choose(l, h)}
    onPointerEnter=${show}
    onFocus=${showFocused}
    onBlur=${hideTip}
  ></button>`;
}

/**
 * Move to the neighbouring head with the arrow keys. In a single layer, up and down move by a line, Page Up and Page
 * Down by a layer.
 * @param {KeyboardEvent} event @param {HeadsLayout} layout
 */
function move(event, layout) {
  const step = moveFor(event.key);
  if (!step) return;
  event.preventDefault();
  const [down, right, page] = step;
  if (layout.isLayer) {
    const to = head.value + right + down * layout.lines[0].length;
    const exists = layout.lines.flat().some((cell) => cell.head === to); // false beyond the first and last line
    choose(layer.value + page, exists ? to : head.value);
  } else choose(layer.value + down + page, head.value + right);
  const grid = /** @type {HTMLElement} */ (event.currentTarget);
  requestAnimationFrame(() => {
    const chosen = /** @type {HTMLElement | null} */ (grid.querySelector('[aria-selected="true"]'));
    chosen?.focus();
  });
}
