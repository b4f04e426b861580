// The help sidebar: keys, and a searchable glossary.

import { useState } from "../../../vendor/preact/hooks.js";
import { helpOpen, KEYS } from "../../control/keyboard.js";
import { startTour } from "../../control/tour.js";
import { findTerms, groupsOfTerms, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { Sidebar } from "../../kit/sidebar.js";
import { isEmbedded, isSite } from "../../state/without_server.js";

export function Panel() {
  return helpOpen.value ? html`<${HelpSidebar} />` : null;
}

function HelpSidebar() {
  return html`<${Sidebar} id="help" label=${t("header.help")} close=${() => (helpOpen.value = false)}>
    <h2 class="side-title">${t("help.title")}</h2>
    <dl class="keys">
      ${KEYS.map(
        ({ shown, text }) =>
          html`<div><dt>${shown.map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${t(text)}</dd></div>`,
      )}
    </dl>
    <button class="quiet" id="btn-tour" onClick=${startTour}>${t("tour.start")}</button>
    ${
      isEmbedded || isSite
        ? null // a page without a server has no documentation
        : html`<p class="help-docs">
            <a id="help-docs" href="docs/index" target="_blank" rel="noreferrer">${t("help.docs")}</a>
          </p>`
    }
    <${Glossary} />
  <//>`;
}

/** @typedef {NonNullable<ReturnType<typeof findTerms>[number]>} Term */

function Glossary() {
  const [query, setQuery] = useState("");
  const found = findTerms(query);
  return html`<h2 class="side-title" id="help-terms">${t("help.terms")}</h2>
    <input
      class="help-search"
      id="help-search"
      type="search"
      aria-label=${t("help.search")}
      placeholder=${t("help.search")}
      value=${query}
      onInput=${withValue(setQuery)}
    />
    <p class="visually-hidden" role="status">${query ? found.length : ""}</p>
    ${found.length ? null : html`<p class="hint">${t("help.none", { query })}</p>`}
    ${groupsOfTerms()
      .map((group) => ({ group, entries: found.filter((entry) => entry?.group === group) }))
      .filter(({ entries }) => entries.length)
      .map(
        ({ group, entries }) => html`<h3 class="panel-title glossary-group" key=${group}>${t(`glossary.${group}`)}</h3>
          <dl class="glossary">${entries.map((entry) => html`<${Entry} key=${entry?.id} entry=${entry} />`)}</dl>`,
      )}`;
}

/** @param {{entry: Term}} props */
function Entry({ entry }) {
  const { own, other, otherLanguage } = entry;
  return html`<div>
    <dt>${own[0]} <span lang=${otherLanguage.html}>${other[0]}</span></dt>
    <dd>${own[1]}</dd>
  </div>`;
}
