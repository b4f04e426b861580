// Over the whole log: what another pool would have saved, and its requests by class, beside another run's.

import { html } from "../../kit/html.js";
import { runAddress } from "../../net/commands.js";
import { ByClass } from "./by_class.js";
import { WhatIf } from "./what_if.js";

/** Of a run that the server has. */
export function Panel() {
  const address = runAddress("what_if");
  if (address === null) return null;
  return html`<div class="whole" key=${address}>
    <${WhatIf} address=${address} /><${ByClass} address=${runAddress("survey/classes")} />
  </div>`;
}
