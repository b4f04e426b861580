// The help beside the page: keys, and every word of the field, found as one types.

import { useState } from "../../vendor/preact/hooks.js";
import { findTerms, GROUPS } from "../i18n/glossary.js";
import { addTexts, t } from "../i18n/index.js";
import * as texts from "../i18n/topics/tour.js";
import { helpOpen, KEYS } from "../model/keyboard.js";
import { settings } from "../model/settings.js";
import { startTour } from "../model/tour.js";
import { html } from "./html.js";
import { Side } from "./side.js";

addTexts(texts); // before anything of it is drawn

export function Help() {
  return helpOpen.value ? html`<${Open} />` : null;
}

function Open() {
  return html`<${Side} id="help" label=${t("header.help")} close=${() => (helpOpen.value = false)}>
    <h2 class="side-title">${t("help.title")}</h2>
    <dl class="keys">
      ${KEYS.map(({ shown, text }) => html`<div><dt>${shown.map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${t(text)}</dd></div>`)}
    </dl>
    <button class="quiet" id="btn-tour" onClick=${startTour}>${t("tour.start")}</button>
    <${Glossary} />
  <//>`;
}

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
      onInput=${(event) => setQuery(event.currentTarget.value)}
    />
    <p class="visually-hidden" role="status">${query ? found.length : ""}</p>
    ${found.length ? null : html`<p class="hint">${t("help.none", { query })}</p>`}
    ${GROUPS.map((group) => [group, found.filter(([, entry]) => entry.group === group)])
      .filter(([, entries]) => entries.length)
      .map(
        ([group, entries]) => html`<h3 class="panel-title glossary-group" key=${group}>${t(`glossary.${group}`)}</h3>
          <dl class="glossary">${entries.map(([id, entry]) => html`<${Entry} key=${id} entry=${entry} />`)}</dl>`,
      )}`;
}

function Entry({ entry }) {
  const lang = settings.lang.value;
  const other = lang === "zh" ? "en" : "zh";
  return html`<div>
    <dt>${entry[lang][0]} <span lang=${other === "zh" ? "zh-CN" : "en"}>${entry[other][0]}</span></dt>
    <dd>${entry[lang][1]}</dd>
  </div>`;
}
