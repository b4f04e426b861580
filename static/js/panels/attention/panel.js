// The attention panel: the causal matrix with its proof, all layers and heads at once, the softmax of the current
// query, and the sampled candidates. The layout depends on the available space.

import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Segmented } from "../../kit/inputs.js";
import { lazy } from "../../kit/lazy.js";
import { useBox } from "../../kit/measure.js";
import { settings } from "../../state/settings.js";
import { log } from "../../state/store.js";
import { Candidates } from "./candidates.js";
import { Matrix } from "./matrix.js";
import { Overview } from "./overview.js";

/** Lazy, because narrow layouts show the candidates first. The placeholder reserves its space in other layouts. */
const Softmax = lazy(
  () => import("./softmax.js").then((m) => m.Softmax),
  () => html`<section class="panel softmax"></section>`,
);

const Output = lazy(
  () => import("./output.js").then((m) => m.Output),
  () => html`<section class="panel softmax"></section>`,
);

const WIDER_FROM = 64; // minimum number of heads of the model for a wider overview

/**
 * Layout by size. stack: one below the other; tall: a large matrix with the rest beside it; wide: four columns; three:
 * three columns.
 * @param {{width: number, height: number}} size
 */
function layoutFor({ width, height }) {
  if (width < 560) return "stack";
  if (height >= 270) return "tall";
  return width >= 880 && height > 0 ? "wide" : "three";
}

/** @param {string} name */
const title = (name) => t(`${name}.title`);
/** Title for the three-column layout. @param {string} name */
const shortTitle = (name) => t(`attention.short.${name}`);

export function Panel() {
  const [box, size] = useBox();
  // before the first measurement, assume the window's width
  const layout = layoutFor(size.width ? size : { width: innerWidth, height: 0 });
  const showsCandidates = layout !== "three";
  const model = log.value?.header.model;
  const many = model !== undefined && model.num_layers * model.num_heads > WIDER_FROM;
  const names = showsCandidates ? ["softmax", "output"] : ["candidates", "softmax", "output"];
  const choice = html`<${Segmented} label=${t("attention.answer")} name="answer" choices=${names}
    usual=${showsCandidates ? "softmax" : "candidates"} text=${showsCandidates ? title : shortTitle} />`;
  const tab = settings.answer.value;
  return html`<div class="attention" data-layout=${layout} data-heads=${many ? "many" : null} ref=${box}>
    <${Matrix} />
    <${Overview} />
    ${tab === "output" ? html`<${Output} choice=${choice} />` : null}
    ${
      tab === "softmax" || (showsCandidates && tab === "candidates")
        ? html`<${Softmax} choice=${choice} isWide=${showsCandidates} />`
        : null
    }
    ${
      showsCandidates || tab === "candidates"
        ? html`<${Candidates} choice=${showsCandidates ? null : choice} fits=${layout !== "stack"} />`
        : null
    }
  </div>`;
}
