// htm bound to Preact: html`<div>…</div>` without a build step.

import htm from "../../vendor/htm/htm.js";
import { h } from "../../vendor/preact/preact.js";

/**
 * What a component draws, and a component. Its props come through a template, which no type checker sees: each
 * component says which ones it takes.
 *
 * @typedef {import("../../vendor/preact/preact.js").ComponentChildren} Children
 * @typedef {(props: any) => Children} Component
 */

const ALWAYS_NEW = 3; // htm's two bits of an element: it has something that changes, and so has what is in it

/**
 * htm makes an element in which nothing changes once, and keeps it as long as the page is there; what Preact has drawn
 * knows what it stands in, and so all that was shown around it when it was first drawn: a log that was let go would
 * stay. `this` is htm's list of what it does for the element; its first entry says what changes.
 *
 * @this {number[]}
 * @param {Parameters<typeof h>} what
 */
function made(...what) {
  this[0] = ALWAYS_NEW;
  return h(...what);
}

export const html = htm.bind(made);
