// A text of a lesson, from its tree: words in the colour of what they name, numbers that lead to where they are read.

import { jumpTo } from "../../control/playback.js";
import { html } from "../../kit/html.js";
import { isEmbedded } from "../../state/embedded.js";
import { t } from "../../tell/words.js";
import { Knob } from "./knob.js";

/**
 * @typedef {{
 *   tag: string, children: Node[], figure?: string, record?: number | null, setting?: string, thing?: string,
 *   href?: string,
 * }} Element
 * @typedef {string | Element} Node
 */

/** @param {Node[]} nodes @returns {string} */
const words = (nodes) => nodes.map((node) => (typeof node === "string" ? node : words(node.children))).join("");

/** @param {{nodes: Node[]}} props */
export const Blocks = ({ nodes }) => html`<div class="lesson-text">${nodes.map(drawn)}</div>`;

/**
 * @param {Node} node
 * @returns {import("../../kit/html.js").Children}
 */
function drawn(node) {
  if (typeof node === "string") return node;
  const inside = node.children.map(drawn);
  if (node.tag === "a") return link(node, inside);
  return html`<${node.tag}>${inside}<//>`;
}

/**
 * @param {Element} node
 * @param {import("../../kit/html.js").Children} inside
 */
function link(node, inside) {
  if (node.figure !== undefined) {
    const { record } = node;
    if (record === null || record === undefined) return html`<b class="lesson-figure num">${inside}</b>`;
    return html`<button class="lesson-figure num" title=${t("lesson.figure", { i: record + 1 })}
      onClick=${() => jumpTo(record)}>${inside}</button>`;
  }
  if (node.thing) return html`<b class=${`lesson-thing thing-${node.thing}`}>${inside}</b>`;
  if (node.setting) return html`<${Knob} name=${node.setting} text=${words(node.children)} />`;
  if (isEmbedded && node.href?.startsWith("/")) return inside; // a file has no other pages
  return html`<a href=${node.href} rel="noopener noreferrer" target="_blank">${inside}</a>`;
}
