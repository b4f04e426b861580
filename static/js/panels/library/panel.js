// The library: all recordings of this server, with buttons to record, open, name and download. The stage above shows
// the opened one.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { openLive, openRun } from "../../control/deep_link.js";
import { bytesText, grouped, inLanguage, langOf, t } from "../../i18n/words.js";
import { withDates } from "../../kit/dates.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import {
  activeRecording,
  failed,
  library,
  openFile,
  record,
  refresh,
  stopRecording,
  uploading,
} from "../../net/library.js";
import { useEnlargedWhereLow } from "../../runs/side_by_side.js";
import { settings } from "../../state/settings.js";
import { connection, modelFacts, numRecords } from "../../state/store.js";
import { Details, shownName } from "./details.js";

/** @import {Entry} from "../../net/library.js" */

export function Panel() {
  useEnlargedWhereLow();
  const [openEntry, setOpenEntry] = useState(/** @type {string | null} */ (null)); // id
  const recordedNow = activeRecording.value?.id;
  useEffect(() => void refresh(), [recordedNow]);
  const entries = library.value?.recordings ?? [];
  return html`<div class="library" id="library">
    <${Bar} />
    <${Findings} />
    ${
      library.value === null
        ? html`<p class="hint" role="status">${failed.value ?? t("library.loading")} ${
            failed.value
              ? html`<button
          class="link" id="library-retry" onClick=${refresh}>${t("library.retry")}</button>`
              : null
          }</p>`
        : html`<ul class="library-list" aria-label=${t("library.list")}>
          ${entries.map(
            (entry) => html`<${Row} key=${entry.id} entry=${entry} open=${openEntry === entry.id}
            toggle=${() => setOpenEntry(openEntry === entry.id ? null : entry.id)} />`,
          )}
        </ul>`
    }
    ${
      library.value && !entries.some((entry) => entry.source === "library")
        ? html`<p
      class="hint">${t(library.value.can_keep ? "library.none" : "library.no_place")}</p>`
        : null
    }
  </div>`;
}

/** Buttons to record the run, to upload a file and to leave a recording. */
function Bar() {
  const live = connection.value === "live";
  const replay = connection.value === "replay";
  const recording = activeRecording.value;
  const upload = uploading.value;
  const canKeep = library.value?.can_keep ?? false;
  const hasModel = modelFacts.value?.live !== false;
  return html`<div class="library-bar">
    ${
      recording
        ? html`<button class="quiet" id="btn-record-stop" onClick=${stopRecording}><i class="record-stop"
          aria-hidden="true"></i>${t("library.stop")}</button>
          <span class="library-made num"><i class="record-mark"
            aria-hidden="true">●</i> ${t("library.making", {
              name: recording.name,
              n: grouped(numRecords.value),
            })}</span>`
        : html`<button class="quiet" id="btn-record" disabled=${!live || !canKeep || !numRecords.value}
          title=${live ? t("library.record_hint") : ""} onClick=${() => record("")}>
          <i class="record-mark" aria-hidden="true">●</i>${t("library.record")}
        </button>`
    }
    ${
      canKeep
        ? html`<label class="quiet library-upload"
          ><${Icon} name="add" /> ${t("library.upload")}<input id="library-file" class="visually-hidden" type="file"
            accept=".kvtrace" onChange=${onFile}
        /></label>`
        : null
    }
    ${
      upload
        ? html`<progress aria-label=${t("library.uploading", { name: upload.name })} max="1"
      value=${upload.share}></progress>`
        : null
    }
    ${
      replay && hasModel
        ? html`<button class="quiet library-live" id="btn-to-live" onClick=${openLive}><i
          class="live-mark" aria-hidden="true">●</i>${t("library.to_live")}</button>
          <span class="hint">${t("library.replay")}</span>`
        : null
    }
    ${replay && !hasModel ? html`<span class="hint">${t("library.no_model")}</span>` : null}
  </div>`;
}

/** @param {Event} event */
function onFile(event) {
  const input = /** @type {HTMLInputElement} */ (event.currentTarget);
  const [file] = input.files ?? [];
  input.value = ""; // allow choosing the same file again
  if (file) openFile(file);
}

/** Problems with the data folder, in the server's words. */
function Findings() {
  const found = library.value?.findings ?? [];
  if (!found.length) return null;
  return html`<details class="library-findings">
    <summary>${t("library.findings", { n: found.length })}</summary>
    <ul>
      ${found.map(({ message }) => html`<li lang="en">${message}</li>`)}
    </ul>
  </details>`;
}

/** @param {{entry: Entry, open: boolean, toggle: () => void}} props */
function Row({ entry, open, toggle }) {
  const { summary } = entry;
  const shown = settings.recording.value === entry.id;
  const text = entry.text ? inLanguage(entry.text) : summary.preview;
  return html`<li class=${shown ? "library-row shown" : "library-row"} data-id=${entry.id}>
    <button class="library-open" aria-current=${shown ? "true" : undefined} onClick=${() => openRun(entry.id)}>
      <span class="library-name" lang=${langOf(shownName(entry))}><${Icon} name="play" /> ${shownName(entry)}</span>
      <span class="library-text" lang=${langOf(text)}>${text}</span>
      <span class="library-facts num">${withDates(factsOf(entry).join(" · "))}</span>
    </button>
    <span class="library-tags">${entry.tags.map(
      (tag) => html`<span class="library-tag"
      key=${tag}>${tag}</span>`,
    )}</span>
    <button class="tool small" aria-expanded=${open} aria-label=${t("library.more", { name: shownName(entry) })}
      title=${t("library.more", { name: shownName(entry) })} onClick=${toggle}>
      <${Icon} name=${open ? "smaller" : "larger"} />
    </button>
    ${open ? html`<${Details} entry=${entry} />` : null}
  </li>`;
}

/**
 * Return facts about a recording: source, model, size, date, and its end if it was not stopped normally.
 * @param {Entry} entry
 */
function factsOf({ source, summary, ended, added, recording }) {
  return [
    source === "library" ? null : t(`library.source.${source}`),
    summary.model,
    t("library.records", { n: grouped(summary.num_records) }),
    bytesText(summary.num_bytes),
    (added || summary.created).slice(0, 10),
    recording ? t("library.growing") : ended && ended !== "stopped" ? t(`library.ended.${ended}`) : null,
    summary.damage ? t("library.damaged") : null,
  ].filter(Boolean);
}
