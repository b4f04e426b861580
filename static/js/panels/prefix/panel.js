// The prefix cache at the drawn record: cached and shared blocks, and lookups.

import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { Term } from "../../kit/term.js";
import { log, state } from "../../state/store.js";
import { Answer, Ask, tree, wanted, whose } from "./ask.js";
import { isPrivate } from "./row_facts.js";
import { Tree } from "./tree.js";

export function Panel() {
  const [now, cache, at] = [log.value, tree.value, state.value];
  if (!now || !cache || !at) return html`<p class="hint">${t("prefix.empty", { size: "B" })}</p>`;
  if (now.header.engine.enable_prefix_caching === false && !cache.byHash.size)
    return html`<p class="hint">${t("prefix.off")}</p>`;
  return html`<div class="prefix" id="prefix">
    <header class="prefix-head">
      <h3 class="panel-title"><${Term} id="prefix_cache">${t("prefix.title")}<//> <${Fidelity} kind="captured" /></h3>
      <span class="hint num">${t("prefix.sum", {
        held: grouped(cache.held),
        reusable: grouped(cache.reusable),
        n: cache.held + cache.reusable,
      })}</span>
      <${Whose} instances=${now.header.instances ?? []} />
      ${isPrivate() ? null : html`<${Ask} />`}
    </header>
    ${isPrivate() ? html`<p class="hint">${t("prefix.private")}</p>` : html`<${Answer} />`}
    ${cache.byHash.size ? html`<${Tree} />` : html`<p class="hint">${t("prefix.empty", { size: at.block_size })}</p>`}
  </div>`;
}

/**
 * Choice of the instance whose prefix cache is shown.
 * @param {{instances: import("../../core/trace.js").InstanceFacts[]}} props
 */
function Whose({ instances }) {
  if (instances.length < 2) return null;
  return html`<select id="prefix-instance" aria-label=${t("prefix.instance")} title=${t("prefix.instance")}
    onChange=${withValue((at) => (wanted.value = Number(at)))}>
    ${instances.map(
      ({ name }, at) => html`<option key=${name} value=${at} selected=${at === whose.value}>${name}</option>`,
    )}
  </select>`;
}
