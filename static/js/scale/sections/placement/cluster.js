// The nodes of a placement: each GPU a square in the colour of what it does, where `engine/simulate/layout.py` has it.

import { html } from "../../../kit/html.js";
import { t } from "../../../tell/words.js";

/**
 * @typedef {import("./section.js").Placement} Placement
 */

const MOST = 16; // nodes that are drawn
const FEW = 4; // that are drawn even where they are free

/** @param {{placement: Placement, nodes: number, gpus: number}} props */
export function Cluster({ placement, nodes, gpus }) {
  const { options, layout } = placement;
  const used = layout.nodes.length;
  const shown = Array.from({ length: Math.min(MOST, Math.max(used, Math.min(nodes, FEW))) }, (_, at) => {
    const node = layout.nodes[at] ?? [];
    return [...node, ...Array(Math.max(0, gpus - node.length)).fill("free")];
  });
  const counts = options.map((one) => `${one.replicas * one.tensor_parallel * one.stages} ${kindText(one.kind)}`);
  const label = t("scale.placement.cluster", { used, counts: counts.join(", ") });
  return html`<div class="scale-cluster" role="img" aria-label=${label}>
    ${shown.map(
      (node, at) => html`<span key=${at} class="scale-node">
        ${node.map((kind, i) => html`<i key=${i} class="scale-gpu" data-kind=${kind}></i>`)}
      </span>`,
    )}
    ${used > MOST ? html`<span class="hint">${t("scale.placement.more", { nodes: used - MOST })}</span>` : null}
  </div>`;
}

/** @param {string} kind */
const kindText = (kind) => t(`scale.placement.kind.${kind}`);
