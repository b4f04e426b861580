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
  const isOwn = entry.source === "library";
  const { summary } = entry;
  return html`<div class="library-details" id=${`details-${entry.id}`}>
    ${isOwn ? html`<${Names} entry=${entry} />` : null}
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
      ${isOwn ? html`<${Delete} entry=${entry} />` : null}
    </div>
    ${isSite ? null : html`<${Exports} id=${entry.id} />`}
  </div>`;
}

/**
 * Exports for other programs. If this server cannot write an export, the missing package is named.
 * @param {{id: string}} props
 */
function Exports({ id }) {
  const exports = library.value?.exports ?? {};
  return html`<details class="library-exports">
    <summary>${t("library.export")}</summary>
    <ul>
      ${Object.entries(exports).map(
        ([format, lacks]) => html`<li key=${format}>
          ${
            lacks
              ? html`<span class="quiet lacking">${t(`library.export.${format}`)}</span>`
              : html`<a class="quiet"
            href=${`api/recordings/${id}/export/${format}`} download>${t(`library.export.${format}`)}</a>`
          }
          <span class="hint">${t(lacks ? "library.export.lacks" : `library.export.${format}_text`, { lacks })}</span>
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
 * Form for name and tags. A field is saved on blur or Enter; it shows the typed text until the server confirms it.
 * @param {{entry: Entry}} props
 */
function Names({ entry }) {
  const [typed, setTyped] = useState(/** @type {Partial<Record<Field, string>>} */ ({}));
  /** @param {Field[]} names */
  const save = async (names) => {
    const changes = names.flatMap((name) => {
      const changed = { ...entry, [name]: FIELDS[name].read(typed[name] ?? "", entry) };
      const isEqual = !(name in typed) || FIELDS[name].write(changed) === FIELDS[name].write(entry);
      return isEqual ? [] : [[name, changed[name]]];
    });
    if (changes.length) await change(entry.id, Object.fromEntries(changes));
    // text typed in the meantime is not saved yet
    setTyped((now) => {
      const saved = names.filter((name) => now[name] === typed[name]);
      return Object.fromEntries(Object.entries(now).filter(([name]) => !saved.includes(/** @type {Field} */ (name))));
    });
  };
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    save(NAMES);
  };
  /** @type {(name: Field, more?: object) => import("../../kit/html.js").Children} */
  const field = (name, attributes = {}) => html`<label class="field"
    ><span>${t(`library.${name}`)}</span>
    <input name=${name} ...${attributes} value=${typed[name] ?? FIELDS[name].write(entry)}
      onInput=${withValue((value) => setTyped((now) => ({ ...now, [name]: value })))}
      onBlur=${() => save([name])}
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
  const [isConfirming, setConfirming] = useState(false);
  if (entry.recording) return null; // a recording in progress must be stopped first
  if (!isConfirming)
    return html`<button class="quiet library-delete" onClick=${() => setConfirming(true)}>${t(
      "library.delete",
    )}</button>`;
  return html`<span class="library-sure" role="group" aria-label=${t("library.delete_sure")}>
    ${t("library.delete_sure")}
    <button class="quiet library-delete sure" onClick=${() => remove(entry.id)}>${t("library.delete")}</button>
    <button class="quiet" ref=${takeFocus}
      onClick=${() => setConfirming(false)}>${t("library.delete_not")}</button>
  </span>`;
}
