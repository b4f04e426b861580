// The provenance chain as one line of links. Its texts are loaded on the first hover.

import { wordsOf } from "../../i18n/chain.js";
import { t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { follow } from "../../state/selection.js";

/** @import {ChainLink} from "../../state/store.js" */

const SHOWN_KINDS = new Set([
  "query",
  "key",
  "slot",
  "block",
  "table",
  "owners",
  "loaded",
  "moved",
  "written",
  "decision",
  "freed",
  "bytes",
  "state",
  "operation",
  "request",
  "sequence",
  "lookup",
  "outside",
  "blocks",
  "figure",
  "contiguous",
]);
const CLICKABLE = new Set(["loaded", "moved", "written", "decision", "freed", "lookup", "outside"]);

const MAX_LINKS = 9;

/** @param {{links: ChainLink[]}} props */
export function Links({ links }) {
  const weight = links.find((link) => link.kind === "weight" && link.value !== null);
  return html`<ol class="links">
    ${links
      .filter((link) => SHOWN_KINDS.has(link.kind))
      .slice(0, MAX_LINKS)
      .map(
        (link) =>
          html`<${Link} link=${link}
            second=${
              link.kind === "query" && weight ? t("chain.weight.short", { weight: wordsOf(weight).value }) : null
            } />`,
      )}
    ${links
      .filter((link) => link.kind === "nowhere" || link.kind === "released")
      .map(
        (link) => html`<li
      class="link-text">${wordsOf(link).lines[0]}</li>`,
      )}
  </ol>`;
}

/** @param {{link: ChainLink, second: string | null}} props */
function Link({ link, second }) {
  const words = wordsOf(link);
  const value = Array.isArray(words.value)
    ? words.value.map((/** @type {number} */ id) => html`<${Swatch} id=${id} />${id} `)
    : words.value;
  return html`<li class="chain-link" data-kind=${link.kind}>
    <span class="link-name">${words.term ? html`<${Term} id=${words.term}>${words.name}<//>` : words.name}</span>
    <span class="link-value num">
      ${
        CLICKABLE.has(link.kind) && link.go !== undefined
          ? html`<button class="link-go" title=${t("chain.go", { record: link.go + 1 })}
            onClick=${() => follow({ go: link.go })}>${value}</button>`
          : value
      }
    </span>
    <span class="link-second num">${second ?? words.second}</span>
  </li>`;
}
