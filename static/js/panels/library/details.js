// What can be done with one recording: name and tags, files to take along, deleting it.

import { useState } from "../../../vendor/preact/hooks.js";
import { html } from "../../kit/html.js";
import { change, library, remove } from "../../net/library.js";
import { inLanguage, t } from "../../tell/words.js";

/** The name in the page's language, where it has one. */
export const shownName = (entry) => (entry.title ? inLanguage(entry.title) : entry.name);

/** Files of a recording: what it is called, and where the server has it. */
const FILES = { ".kvtrace": (id) => `/api/recordings/${id}/trace`, HTML: (id) => `/api/theaters/${id}/export.html` };

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
          ${
            lacks
              ? html`<span class="quiet lacking">${t(`library.export.${to}`)}</span>`
              : html`<a class="quiet"
            href=${`/api/recordings/${id}/export/${to}`} download>${t(`library.export.${to}`)}</a>`
          }
          <span class="hint">${t(lacks ? "library.export.lacks" : `library.export.${to}_text`, { lacks })}</span>
        </li>`,
      )}
    </ul>
  </details>`;
}

/** What a field's text stands for, and the text of what it stands for now. */
const FIELDS = {
  name: { read: (text, entry) => text.trim() || entry.name, write: (name) => name },
  tags: {
    read: (text) => [
      ...new Set(
        text
          .split(/[,，]/)
          .map((tag) => tag.trim())
          .filter(Boolean),
      ),
    ],
    write: (tags) => tags.join(", "),
  },
};

/** Each is kept when its field is left or Enter is pressed; what is being typed stays until the server has it. */
function Names({ entry }) {
  const [typed, setTyped] = useState({}); // text by field
  const keep = async (names) => {
    const wanted = names.filter((name) => name in typed).map((name) => [name, FIELDS[name].read(typed[name], entry)]);
    const other = wanted.filter(([name, value]) => FIELDS[name].write(value) !== FIELDS[name].write(entry[name]));
    if (other.length) await change(entry.id, Object.fromEntries(other));
    // what was typed on meanwhile is not kept yet
    setTyped((now) =>
      Object.fromEntries(Object.entries(now).filter(([name, text]) => !names.includes(name) || text !== typed[name])),
    );
  };
  const field = (name, more = {}) => html`<label class="field"
    ><span>${t(`library.${name}`)}</span>
    <input name=${name} ...${more} value=${typed[name] ?? FIELDS[name].write(entry[name])}
      onInput=${({ currentTarget: { value } }) => setTyped((now) => ({ ...now, [name]: value }))}
      onBlur=${() => keep([name])}
  /></label>`;
  return html`<form class="library-names" onSubmit=${(event) => (event.preventDefault(), keep(Object.keys(FIELDS)))}>
    ${field("name", { maxlength: 200 })}${field("tags")}
    <button class="visually-hidden" tabindex="-1">${t("library.keep_names")}</button>
  </form>`;
}

/** Asks once more, in the same place. */
function Delete({ entry }) {
  const [asked, setAsked] = useState(false);
  if (entry.recording) return null; // that is stopped first
  if (!asked)
    return html`<button class="quiet library-delete" onClick=${() => setAsked(true)}>${t("library.delete")}</button>`;
  return html`<span class="library-sure" role="group" aria-label=${t("library.delete_sure")}>
    ${t("library.delete_sure")}
    <button class="quiet library-delete sure" onClick=${() => remove(entry.id)}>${t("library.delete")}</button>
    <button class="quiet" ref=${(button) => button?.focus()}
      onClick=${() => setAsked(false)}>${t("library.delete_not")}</button>
  </span>`;
}
