// The provenance chain of what is pointed at as one line, link by link, every link with its numbers.

import { html } from "../../kit/html.js";
import { lazy } from "../../kit/lazy.js";
import { chain, hovered, selected } from "../../state/store.js";
import { t } from "../../tell/words.js";

const Links = lazy(async () => (await import("./chain_links.js")).Links);

export function Chain() {
  const now = chain.value;
  return html`<div class="chain" id="chain" role="region" aria-label=${t("chain.title")}
    data-pinned=${selected.value !== null} onFocusOut=${leave}>
    ${now ? html`<${Links} links=${now.links} />` : html`<p class="hint">${t("chain.empty")}</p>`}
  </div>`;
}

/**
 * What was pointed at is let go when the focus leaves the chain that tells of it.
 *
 * @param {FocusEvent & {currentTarget: Element}} event
 */
function leave({ currentTarget, relatedTarget }) {
  if (!(relatedTarget instanceof Node && currentTarget.contains(relatedTarget))) hovered.value = null;
}
