// The attention panel: the causal matrix so far, every layer and head at once, and what was chosen from it.

import { Candidates } from "./candidates.js";
import { html } from "./html.js";
import { Matrix } from "./matrix.js";
import { Overview } from "./overview.js";

export function Attention() {
  return html`<div class="below">
    <${Matrix} />
    <${Overview} />
    <${Candidates} />
  </div>`;
}
