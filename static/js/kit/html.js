// htm bound to Preact: html`<div>…</div>` without a build step.

import htm from "../../vendor/htm/htm.js";
import { h } from "../../vendor/preact/preact.js";

export const html = htm.bind(h);
