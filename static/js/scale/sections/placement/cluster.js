// The nodes of a placement: each GPU a square in the colour of what it does, stage by stage.

import { html } from "../../../kit/html.js";
import { t } from "../../../tell/words.js";

/**
 * @typedef {import("./section.js").Option} Option
 * @typedef {import("./section.js").Kind} Kind
 */

const MOST = 16; // nodes that are drawn

/**
 * What each GPU of each node does. Those that split a layer are in one node; the first node with room takes them.
 *
 * @param {Option[]} options
 * @param {number} nodes
 * @param {number} gpus of a node
 * @param {boolean} together stages of both kinds side by side in each node
 * @returns {(Kind | null)[][]}
 */
export function placed(options, nodes, gpus, together) {
  /** @type {(Kind | null)[][]} */
  const found = Array.from({ length: nodes }, () => []);
  const put = (/** @type {Option} */ one, /** @type {number} */ from) => {
    const room = (/** @type {number} */ node) => gpus - found[node].length >= one.tensor_parallel;
    const node = found.findIndex((_, at) => at >= from && room(at));
    if (node >= 0) found[node].push(...Array(one.tensor_parallel).fill(one.kind));
    return node;
  };
  if (together) {
    const [{ stages }] = options;
    const groups = groupsOf(options.map(({ replicas }) => replicas));
    for (let node = 0; node < groups * stages; node += 1)
      for (const one of options) for (let i = 0; i < one.replicas / groups; i += 1) put(one, node);
  } else
    for (const one of options) {
      const before = found.findLastIndex((node) => node.length > 0);
      const from = one.gpu === options[0].gpu ? 0 : before + 1; // a node has GPUs of one kind
      for (let i = 0; i < one.replicas * one.stages; i += 1) put(one, from);
    }
  return found.map((node) => [...node, ...Array(gpus - node.length).fill(null)]);
}

/** The most groups into which all numbers can be divided. @param {number[]} numbers */
function groupsOf(numbers) {
  return numbers.reduce((a, b) => {
    while (b) [a, b] = [b, a % b];
    return a;
  });
}

/** @param {{options: import("./section.js").Option[], nodes: number, gpus: number, together: boolean}} props */
export function Cluster({ options, nodes, gpus, together }) {
  const all = placed(options, nodes, gpus, together);
  const used = Math.max(1, all.findLastIndex((node) => node.some(Boolean)) + 1);
  const shown = all.slice(0, Math.min(MOST, Math.max(used, Math.min(nodes, 4))));
  const counts = options.map((one) => `${one.replicas * one.tensor_parallel * one.stages} ${kindText(one.kind)}`);
  const label = t("scale.placement.cluster", { used, counts: counts.join(", ") });
  return html`<div class="scale-cluster" role="img" aria-label=${label}>
    ${shown.map(
      (node, at) => html`<span key=${at} class="scale-node">
        ${node.map((kind, i) => html`<i key=${i} class="scale-gpu" data-kind=${kind ?? "free"}></i>`)}
      </span>`,
    )}
    ${used > MOST ? html`<span class="hint">${t("scale.placement.more", { nodes: used - MOST })}</span>` : null}
  </div>`;
}

/** @param {string} kind */
const kindText = (kind) => t(`scale.placement.kind.${kind}`);
