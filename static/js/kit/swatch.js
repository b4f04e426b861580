import { html } from "./html.js";

/**
 * Colour and texture of a sequence.
 *
 * @param {{id: number}} props
 */
export function Swatch({ id }) {
  return html`<span class=${`swatch seq-${id % 8}`} aria-hidden="true"></span>`;
}
