// Row with the logit lens of the chosen layer at each position, and the button that shows it.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { loneLabel } from "../../core/labels.js";
import { langOf, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { select } from "../../state/store.js";
import { fetchLens, lensAt, lensIsOn, lensIsPossible, lensIsRight, lensProblem, lensText } from "./lens.js";
import { fontSize, shownText } from "./token_row_columns.js";

/** @import {View} from "../../state/store.js" */
/** @import {Columns} from "./geometry.js" */

const MAX_FONT = 14; // px

/** Button in the gutter, and the row's name. @param {{now: View | null}} props */
export function LensSwitch({ now }) {
  if (!lensIsPossible.value) return null;
  const on = lensIsOn.value;
  return html`${
    on && now
      ? html`<div class="gutter-lens">${t("stage.lens.row", { layer: now.layer })} <${Fidelity} kind="derived"
        formula=${t("stage.lens.formula")} /></div>`
      : null
  }<button class="gutter-lens-switch" id="stage-lens" aria-pressed=${on} ...${tips([t("stage.lens.what")])}
    onClick=${() => (lensIsOn.value = !on)}>${t("stage.lens")}</button>`;
}

/** @param {{now: View, layout: Columns, span: [number, number]}} props */
export function LensRow({ now, layout, span }) {
  const on = lensIsOn.value && lensIsPossible.value;
  const [first, last] = span;
  useEffect(() => (on ? fetchLens(now, span) : undefined), [on, now, first, last]);
  if (!on) return null;
  const problem = lensProblem(now);
  const positions = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  const style = { width: `${layout.extent}px` };
  return html`<div class="token-row-lens" id="token-row-lens" aria-hidden=${!problem} style=${style}>${
    problem
      ? html`<p class="token-row-lens-problem">${problem}</p>`
      : positions.map((position) => html`<${LensToken} key=${position} ...${{ now, layout, position }} />`)
  }</div>`;
}

/**
 * The most probable next token at a position. Screen readers get it from the token's column.
 * @param {{now: View, layout: Columns, position: number}} props
 */
function LensToken({ now, layout, position }) {
  const top = lensAt(now, position);
  if (!top?.length) return null;
  const text = shownText(loneLabel(top[0].token_bytes));
  const size = fontSize(text, layout.width);
  const style = {
    left: `${layout.x(position)}px`,
    width: `${layout.width}px`,
    fontSize: size === null ? undefined : `${Math.min(size, MAX_FONT)}px`,
  };
  return html`<span class="token-row-guess" data-position=${position} data-right=${lensIsRight(now, position, top)}
    lang=${langOf(text)} style=${style} ...${tips([lensText(now, position)])} onClick=${() => select({ position })}>${
      size === null ? "…" : text
    }</span>`;
}
