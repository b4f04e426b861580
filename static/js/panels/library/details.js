// Details of a recording: name and tags, downloads, deletion.

import { useState } from "../../../vendor/preact/hooks.js";
import { inLanguage, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { change, library, remove } from "../../net/library.js";
import { isSite, siteRecording } from "../../state/without_server.js";

/** @import {Entry} from "../../net/library.js" */

/** Name of a recording in the page's language, if it has a title. @param {Entry} entry */
export const shownName = (entry) => (entry.title ? inLanguage(entry.title) : entry.name);

/** Downloads of a recording: label and address. @type {Record<string, (id: string) => string>} */
const FILES = isSite
  ? { ".kvtrace": siteRecording }
  : { ".kvtrace": (id) => `api/recordings/${id}/trace`, HTML: (id) => `api/theaters/${id}/export.html` };

/** @param {{entry: Entry}} props */
export function Details({ entry }) {
  const own = entry.source === "library";
  const { summary } = entry;
  return html`<div class="library-details" id=${`details-${entry.id}`}>
    ${own ? html`<${Names} entry=${entry} />` : null}
    ${
      entry.ended_detail || summary.damage
        ? html`<p class="library-wrong"
      lang="en">${entry.ended_detail || summary.damage}</p>`
        : null
    }
    ${entry.command ? html`<p class="hint">${t("library.command")} <code>${entry.command}</code></p>` : null}
    <div class="library-actions">
      <span class="hint">${t("library.take")}</span>
      ${Object.entries(FILES).map(
        ([kind, address]) => html`<a class="quiet" key=${kind} href=${address(entry.id)}
        download>${kind}</a>`,
      )}
      ${own ? html`<${Delete} entry=${entry} />` : null}
    </div>
    ${isSite ? null : html`<${Exports} id=${entry.id} />`}
  </div>`;
}

/**
 * Exports for other programs. An export that this server cannot write names the missing package.
 * @param {{id: string}} props
 */
function Exports({ id }) {
  const exports = library.value?.exports ?? {};
  return html`<details class="library-exports">
    <summary>${t("library.export")}</summary>
    <ul>
      ${Object.entries(exports).map(
        ([to, lacks]) => html`<li key=${to}>
          ${
            lacks
              ? html`<span class="quiet lacking">${t(`library.export.${to}`)}</span>`
              : html`<a class="quiet"
            href=${`api/recordings/${id}/export/${to}`} download>${t(`library.export.${to}`)}</a>`
          }
          <span class="hint">${t(lacks ? "library.export.lacks" : `library.export.${to}_text`, { lacks })}</span>
        </li>`,
      )}
    </ul>
  </details>`;
}

/** @param {string} text */
const tagsIn = (text) => {
  const tags = text.split(/[,，]/).map((tag) => tag.trim());
  return [...new Set(tags.filter(Boolean))];
};

/** @typedef {"name" | "tags"} Field */

/**
 * Parser and formatter of each field.
 * @type {Record<Field, {
 *   read: (text: string, entry: Entry) => string | string[], write: (entry: Pick<Entry, Field>) => string,
 * }>}
 */
const FIELDS = {
  name: { read: (text, entry) => text.trim() || entry.name, write: ({ name }) => name },
  tags: { read: tagsIn, write: ({ tags }) => tags.join(", ") },
};
/** @type {Field[]} */
const NAMES = ["name", "tags"];

/**
 * Form for name and tags. A field is saved on blur or Enter; the typed text is kept until the server confirms it.
 * @param {{entry: Entry}} props
 */
function Names({ entry }) {
  const [typed, setTyped] = useState(/** @type {Partial<Record<Field, string>>} */ ({}));
  /** @param {Field[]} names */
  const keep = async (names) => {
    const other = names.flatMap((name) => {
      const wanted = { ...entry, [name]: FIELDS[name].read(typed[name] ?? "", entry) };
      const same = !(name in typed) || FIELDS[name].write(wanted) === FIELDS[name].write(entry);
      return same ? [] : [[name, wanted[name]]];
    });
    if (other.length) await change(entry.id, Object.fromEntries(other));
    // text typed in the meantime is not saved yet
    setTyped((now) => {
      const same = names.filter((name) => now[name] === typed[name]);
      return Object.fromEntries(Object.entries(now).filter(([name]) => !same.includes(/** @type {Field} */ (name))));
    });
  };
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    keep(NAMES);
  };
  /** @type {(name: Field, more?: object) => import("../../kit/html.js").Children} */
  const field = (name, more = {}) => html`<label class="field"
    ><span>${t(`library.${name}`)}</span>
    <input name=${name} ...${more} value=${typed[name] ?? FIELDS[name].write(entry)}
      onInput=${withValue((value) => setTyped((now) => ({ ...now, [name]: value })))}
      onBlur=${() => keep([name])}
  /></label>`;
  return html`<form class="library-names" onSubmit=${submit}>
    ${field("name", { maxlength: 200 })}${field("tags")}
    <button class="visually-hidden" tabindex="-1">${t("library.keep_names")}</button>
  </form>`;
}

/** @param {HTMLElement | null} button */
const takeFocus = (button) => button?.focus();

/** Delete button with a confirmation in place. @param {{entry: Entry}} props */
function Delete({ entry }) {
  const [asks, setAsks] = useState(false);
  if (entry.recording) return null; // a recording in progress must be stopped first
  if (!asks)
    return html`<button class="quiet library-delete" onClick=${() => setAsks(true)}>${t("library.delete")}</button>`;
  return html`<span class="library-sure" role="group" aria-label=${t("library.delete_sure")}>
    ${t("library.delete_sure")}
    <button class="quiet library-delete sure" onClick=${() => remove(entry.id)}>${t("library.delete")}</button>
    <button class="quiet" ref=${takeFocus}
      onClick=${() => setAsks(false)}>${t("library.delete_not")}</button>
  </span>`;
}
