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

export const html = htm.bind(h);
