// Map of a model with many heads: one cell per layer and head, coloured by the head's role in this run or showing its
// newest row. Click a cell to enlarge the head; click a layer's number to show that layer alone.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { grouped, t } from "../../i18n/words.js";
import { usePainter } from "../../kit/canvas.js";
import { themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { useBox } from "../../kit/measure.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { mapIsShown, roles } from "../../state/roles.js";
import { settings } from "../../state/settings.js";
import { captureVersion, head, layer, log, sequenceView } from "../../state/store.js";
import { cellLines, choose, moveFor } from "./head_words.js";
import { mapLayout } from "./map_geometry.js";
import { FAMILIES, familyOf, paintMap } from "./map_paint.js";
import { attended } from "./overview_paint.js";

/** @import {HeadMapLayout} from "./map_geometry.js" */
/** @import {Kind} from "./map_paint.js" */

/**
 * Kind of heads that is highlighted while its legend entry is hovered.
 * @type {import("../../../vendor/signals/signals.js").Signal<string | null>}
 */
const highlighted = signal(null);

/**
 * Map with its legend. `zoom` shows the chosen head's layer alone. `low` puts the legend beside the map instead of
 * below it.
 * @param {{zoom: () => void, low: boolean}} props
 */
export function HeadMap({ zoom, low }) {
  const [box, size] = useBox();
  const model = log.value?.header.model;
  const isRoles = settings.overview.value === "matrix";
  useEffect(() => {
    mapIsShown.value = true;
    return () => void (mapIsShown.value = false);
  }, []);
  const layout =
    model && size.width ? mapLayout(model, size.width, size.height, globalThis.devicePixelRatio || 1) : null;
  const ref = usePainter(
    () => [
      sequenceView.value,
      attended.value,
      themeVersion.value,
      captureVersion.value,
      roles.value,
      highlighted.value,
    ],
    (element, drawn) => layout && paintMap(element.querySelector("canvas"), drawn, layout, highlighted.value),
  );
  /** @param {HTMLElement | null} element */
  const setElement = (element) => {
    box.current = ref.current = element;
  };
  /** @param {MouseEvent} event */
  const cellAt = (event) => {
    const { left, top } = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    return layout?.hit(event.clientX - left, event.clientY - top) ?? null;
  };
  /** @param {PointerEvent} event */
  const onPoint = (event) => {
    const cell = cellAt(event);
    if (!cell) hideTip();
    else if (cell.head === null) tipAt(event.clientX, event.clientY, [t("overview.zoom", { layer: cell.layer })]);
    else tipAt(event.clientX, event.clientY, cellLines(cell.layer, cell.head));
  };
  /** @param {MouseEvent} event */
  const click = (event) => {
    const cell = cellAt(event);
    if (!cell) return;
    choose(cell.layer, cell.head ?? head.value);
    if (cell.head === null) zoom();
  };
  return html`<div class="map-room" data-side=${low}>
    <div
      class="panel-canvas head-map"
      ref=${setElement}
      role="application"
      tabindex="0"
      data-arrows
      aria-label=${t("overview.map", { layers: model?.num_layers ?? 0, heads: model?.num_heads ?? 0 })}
      onPointerMove=${onPoint}
      onPointerLeave=${hideTip}
      onBlur=${hideTip}
      onClick=${click}
      onDblClick=${zoom}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => move(event, zoom)}
    >
      <canvas aria-hidden="true"></canvas>
    </div>
    <div class="visually-hidden" aria-live="polite">${cellLines(layer.value, head.value).join("; ")}</div>
    ${isRoles ? html`<${Legend} />` : html`<p class="panel-foot">${t("overview.map_axes")}</p>`}
  </div>`;
}

/**
 * Choose the neighbouring head on arrow keys; show its layer alone on Enter.
 * @param {KeyboardEvent} event @param {() => void} zoom
 */
function move(event, zoom) {
  const step = moveFor(event.key);
  if (!step && event.key !== "Enter") return;
  event.preventDefault();
  if (step) return choose(layer.value + step[0] + step[2], head.value + step[1]);
  const panel = /** @type {Element} */ (event.currentTarget).closest(".overview");
  zoom();
  requestAnimationFrame(() => {
    const chosen = /** @type {HTMLElement | null | undefined} */ (panel?.querySelector('[aria-selected="true"]'));
    chosen?.focus();
  });
}

/** Legend with the number of heads of each kind. Clicking a kind selects its clearest head. */
function Legend() {
  const kinds = countKinds();
  const reason = roles.value?.hasEnough() ? "overview.no_roles" : "overview.few_queries";
  return html`<ul class="map-legend num" onPointerLeave=${() => (highlighted.value = null)}>
    ${FAMILIES.filter(({ name }) => kinds.get(name)).map(({ name }) => {
      const { count, best } = /** @type {Kind} */ (kinds.get(name));
      const highlight = () => (highlighted.value = name);
      const clear = () => (highlighted.value = null);
      return html`<li key=${name}><button class="map-kind" data-kind=${name} title=${t(`overview.role.${name}.what`)}
        onPointerEnter=${highlight} onPointerLeave=${clear} onFocus=${highlight} onBlur=${clear}
        onClick=${() => choose(best.layer, best.head)}><i class="map-swatch" aria-hidden="true"></i>${t(
          `overview.role.${name}`,
        )} ${grouped(count)}</button></li>`;
    })}
    ${kinds.size ? null : html`<li class="panel-foot map-none">${t(reason)}</li>`}
  </ul>`;
}

/** @returns {Map<string, Kind>} */
function countKinds() {
  /** @type {Map<string, Kind>} */
  const kinds = new Map();
  const model = log.value?.header.model;
  for (let l = 0; model && l < model.num_layers; l++)
    for (let h = 0; h < model.num_heads; h++) {
      const role = roles.value?.role(l, h);
      if (!role) continue;
      const name = familyOf(role.pattern);
      const previous = kinds.get(name) ?? { count: 0, best: role };
      kinds.set(name, {
        count: previous.count + 1,
        best: role.mean_weight > previous.best.mean_weight ? role : previous.best,
      });
    }
  return kinds;
}
