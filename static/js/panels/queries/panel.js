// Queries over the whole log: SQL, a simulation of another pool size, and requests by class compared with another run.
// Monitored servers have only SQL, since they do not report requests.

import { html } from "../../kit/html.js";
import { runAddress } from "../../net/commands.js";
import { log, own } from "../../state/store.js";
import { ByClass } from "./by_class.js";
import { QueryForm } from "./query_form.js";
import { WhatIf } from "./what_if.js";

/** Panel for runs that the server has. */
export function Panel() {
  const address = runAddress("what_if");
  if (address === null) return null;
  const observed = Boolean((own.large.value?.header ?? log.value?.header)?.observed);
  return html`<div class="queries" key=${address}>
    <${QueryForm} observed=${observed} />
    ${observed ? null : html`<${WhatIf} address=${address} /><${ByClass} address=${runAddress("log_index/classes")} />`}
  </div>`;
}
