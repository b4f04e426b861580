// htm bound to Preact: html`<div>…</div>` without a build step.

import htm from "../../vendor/htm/htm.js";
import { h } from "../../vendor/preact/preact.js";

/**
 * Content of a component, and a component. Props pass through a template without type checks; each component declares
 * its own.
 *
 * @typedef {import("../../vendor/preact/preact.js").ComponentChildren} Children
 * @typedef {(props: any) => Children} Component
 */

const DYNAMIC = 3; // htm's two flags of an element: it and its children have dynamic parts

/**
 * Create an element that is marked dynamic. htm creates static elements once and caches them for the page's lifetime;
 * Preact stores references to their parents in them, so everything shown around one at its first render, such as a log,
 * would leak. `this` is htm's operation list of the element; its first entry holds the flags.
 *
 * @this {number[]}
 * @param {Parameters<typeof h>} args
 */
function createElement(...args) {
  this[0] = DYNAMIC;
  return h(...args);
}

export const html = htm.bind(createElement);
