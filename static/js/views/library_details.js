// What can be done with one recording: name and tags, files to take along, deleting it.

import { useState } from "../../vendor/preact/hooks.js";
import { t } from "../i18n/index.js";
import { settings } from "../model/settings.js";
import { change, library, remove } from "../net/library.js";
import { html } from "./html.js";

/** The name in the page's language, where it has one. */
export const shownName = (entry) => entry.title?.[settings.lang.value] ?? entry.name;

/** Files of a recording: what it is called, and where the server has it. */
const FILES = { ".kvtrace": (id) => `/api/recordings/${id}/trace`, HTML: (id) => `/api/theaters/${id}/export.html` };

export function Details({ entry }) {
  const own = entry.source === "library";
  const { summary } = entry;
  return html`<div class="library-details" id=${`details-${entry.id}`}>
    ${own ? html`<${Names} entry=${entry} />` : null}
    ${entry.ended_detail || summary.damage ? html`<p class="library-wrong" lang="en">${entry.ended_detail || summary.damage}</p>` : null}
    ${entry.command ? html`<p class="hint">${t("library.command")} <code>${entry.command}</code></p>` : null}
    <div class="library-actions">
      <span class="hint">${t("library.take")}</span>
      ${Object.entries(FILES).map(([kind, address]) => html`<a class="quiet" key=${kind} href=${address(entry.id)} download>${kind}</a>`)}
      ${own ? html`<${Delete} entry=${entry} />` : null}
    </div>
    <${Exports} id=${entry.id} />
  </div>`;
}

/** The run for other programs, each with what it is good for; one that this server cannot write says what it lacks. */
function Exports({ id }) {
  const exports = library.value?.exports ?? {};
  return html`<details class="library-exports">
    <summary>${t("library.export")}</summary>
    <ul>
      ${Object.entries(exports).map(
        ([to, lacks]) => html`<li key=${to}>
          ${lacks ? html`<span class="quiet lacking">${t(`library.export.${to}`)}</span>` : html`<a class="quiet" href=${`/api/recordings/${id}/export/${to}`} download>${t(`library.export.${to}`)}</a>`}
          <span class="hint">${t(lacks ? "library.export.lacks" : `library.export.${to}_text`, { lacks })}</span>
        </li>`,
      )}
    </ul>
  </details>`;
}

/** Both are kept when a field is left or Enter is pressed. */
function Names({ entry }) {
  const keep = (event) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget.closest("form"));
    const name = fields.get("name").trim() || entry.name;
    const tags = [...new Set(fields.get("tags").split(/[,，]/).map((tag) => tag.trim()).filter(Boolean))];
    if (name !== entry.name || tags.join() !== entry.tags.join()) change(entry.id, { name, tags });
  };
  return html`<form class="library-names" onSubmit=${keep}>
    <label class="field"><span>${t("library.name")}</span><input name="name" maxlength="200" value=${entry.name} onBlur=${keep} /></label>
    <label class="field"><span>${t("library.tags")}</span><input name="tags" value=${entry.tags.join(", ")} onBlur=${keep} /></label>
    <button class="visually-hidden" tabindex="-1">${t("library.keep_names")}</button>
  </form>`;
}

/** Asks once more, in the same place. */
function Delete({ entry }) {
  const [asked, setAsked] = useState(false);
  if (entry.recording) return null; // that is stopped first
  if (!asked) return html`<button class="quiet library-delete" onClick=${() => setAsked(true)}>${t("library.delete")}</button>`;
  return html`<span class="library-sure" role="group" aria-label=${t("library.delete_sure")}>
    ${t("library.delete_sure")}
    <button class="quiet library-delete sure" onClick=${() => remove(entry.id)}>${t("library.delete")}</button>
    <button class="quiet" ref=${(button) => button?.focus()} onClick=${() => setAsked(false)}>${t("library.delete_not")}</button>
  </span>`;
}
