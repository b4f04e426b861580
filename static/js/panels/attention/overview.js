// All layers and heads at once: as small multiples of the causal matrix or of the current row if they fit, else as a
// map from which a single layer can be opened. Choose a head to enlarge it.

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
import { cellLines, choose, headName, moves } from "./head_words.js";
import { headsLayout, layerLayout } from "./heads_geometry.js";
import { attended, paint } from "./overview_paint.js";

/** @import {ModelFacts} from "../../core/trace.js" */
/** @import {HeadsLayout} from "./heads_geometry.js" */

const AROUND = 50; // px of title and foot
const LOW = 150; // px of the panel's height below which the map's legend moves to its side
const WIDE = 270; // px from which the single-layer button fits beside the title

/** Whether a single layer is shown for a model that has a map. */
const alone = signal(false);
const toLayer = () => (alone.value = true);
const toAll = () => (alone.value = false);

/** Loaded lazily: only larger models have a map. */
const HeadMap = lazy(
  () => import("./head_map.js").then((m) => m.HeadMap),
  () => html`<div class="panel-canvas"></div>`,
);

export function Overview() {
  const [box, size] = useBox();
  const model = log.value?.header.model;
  const square = settings.overview.value === "matrix";
  const isMap = model !== undefined && size.width > 0 && !headsLayout(model, size.width, size.height - AROUND, square);
  const isLayer = isMap && alone.value;
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
      ${isMap && size.width >= WIDE ? html`<${Way} isLayer=${isLayer} />` : null}
    </h3>
    ${
      isMap && !isLayer && sequenceView.value?.numFilled
        ? html`<${HeadMap} zoom=${toLayer} low=${size.height < LOW} />`
        : html`<${Pictures} model=${model} isLayer=${isLayer} isNarrow=${size.width < WIDE} />`
    }
  </section>`;
}

/** Toggle between the map and a single layer. @param {{isLayer: boolean}} props */
function Way({ isLayer }) {
  return html`<button class="to-layer num" id="overview-layer" aria-pressed=${isLayer}
    onClick=${isLayer ? toAll : toLayer}>${
      isLayer ? t("overview.all") : t("overview.layer", { layer: layer.value })
    }</button>`;
}

/**
 * Small picture per head, for all layers or one. The back button is below if it does not fit beside the title.
 * @param {{model: ModelFacts | undefined, isLayer: boolean, isNarrow: boolean}} props
 */
function Pictures({ model, isLayer, isNarrow }) {
  const [box, size] = useBox();
  const square = settings.overview.value === "matrix";
  const layout = () => {
    if (!model || !size.width) return null;
    const { width, height } = size;
    return isLayer ? layerLayout(model, layer.value, width, height, square) : headsLayout(model, width, height, square);
  };
  const at = layout();
  const ref = usePainter(
    () => [sequenceView.value, attended.value, themeVersion.value, captureVersion.value],
    (element, drawn) => at && paint(element.querySelector("canvas"), drawn, at),
  );
  /** @param {HTMLElement | null} element */
  const both = (element) => {
    box.current = ref.current = element;
  };
  const has = Boolean(sequenceView.value?.numFilled);
  const axes = isLayer ? "layer_axes" : "axes";
  return html`<div class="panel-canvas" ref=${both}>
      <canvas aria-hidden="true"></canvas>
      ${has ? null : html`<p class="hint">${t("overview.empty")}</p>`} ${has && at ? html`<${Cells} at=${at} />` : null}
    </div>
    <p class="panel-foot">${t(square ? `overview.${axes}_matrix` : `overview.${axes}`, { layer: layer.value })}
      ${isLayer && isNarrow ? html`<${Way} isLayer />` : null}</p>`;
}

/** The cells as buttons over the picture, for focus and accessible names. @param {{at: HeadsLayout}} props */
function Cells({ at }) {
  return html`<div class="cells" role="grid" aria-label=${t("overview.title")} data-arrows
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => move(event, at)} onPointerLeave=${hideTip}>
    ${at.lines.map(
      (line) => html`<div role="row" key=${line[0].head ? line[0].head : line[0].layer}>
        ${
          at.isLayer
            ? null
            : html`<span class="cell-layer num" role="rowheader"
          aria-label=${t("overview.layer", { layer: line[0].layer })}
          style=${{ top: `${line[0].y}px`, height: `${at.down}px` }}>${line[0].layer}</span>`
        }
        ${line.map((cell) => html`<${Cell} key=${cell.head} at=${at} cell=${cell} />`)}
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

/** @param {{at: HeadsLayout, cell: import("./heads_geometry.js").Cell}} props */
function Cell({ at, cell }) {
  const { layer: l, head: h } = cell;
  const chosen = l === layer.value && h === head.value;
  const style = { left: `${cell.x}px`, top: `${cell.y}px`, width: `${at.across}px`, height: `${at.down}px` };
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
 * @param {KeyboardEvent} event
 * @param {HeadsLayout} at
 */
function move(event, at) {
  const found = moves(event.key);
  if (!found) return;
  event.preventDefault();
  const [down, right, page] = found;
  if (at.isLayer) {
    const to = head.value + right + down * at.lines[0].length;
    const is = at.lines.flat().some((cell) => cell.head === to); // false above the first and below the last line
    choose(layer.value + page, is ? to : head.value);
  } else choose(layer.value + down + page, head.value + right);
  const grid = /** @type {HTMLElement} */ (event.currentTarget);
  requestAnimationFrame(() => {
    const chosen = /** @type {HTMLElement | null} */ (grid.querySelector('[aria-selected="true"]'));
    chosen?.focus();
  });
}
