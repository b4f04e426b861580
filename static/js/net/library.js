// The server's recordings: list and operations. See docs/reference/protocol.md, "Recordings".

import { computed, signal } from "../../vendor/signals/signals.js";
import { refusalText } from "../i18n/language.js";
import { t } from "../i18n/words.js";
import { markPlace } from "../state/settings.js";
import { own, status, toast } from "../state/store.js";
import { isEmbedded, isSite } from "../state/without_server.js";
import { command } from "./commands.js";
import { session } from "./session.js";
import { isTrace, unreadable } from "./trace_file.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */

/** Last response of the server; null before that. @type {Signal<Listing | null>} */
export const library = signal(null);
/** Reason that the list could not be fetched, or null. @type {Signal<string | null>} */
export const failed = signal(null);
/**
 * Upload in progress, `share` from 0 to 1; null if there is none.
 * @type {Signal<{name: string, share: number} | null>}
 */
export const uploading = signal(null);
/** Recording that the followed run is being written to: {id, name}, or null. */
export const activeRecording = computed(() => {
  const now = status.value?.recording;
  return now && now.ended === null ? now : null;
});

/**
 * @typedef {import("../core/wire.js").Answers["/api/recordings"]} Listing
 * @typedef {Listing["recordings"][number]} Entry
 */

const MAX_LOADED = 64 * 2 ** 20; // bytes; a larger file is not loaded into the page, but shown from the server
const HEAD = 8; // bytes that identify a trace

let numRequests = 0; // for the list; only the response to the latest counts

/** Fetch the list. */
export async function refresh() {
  const request = ++numRequests;
  try {
    const found = await ask("api/recordings");
    if (request === numRequests) [library.value, failed.value] = [found, null];
  } catch (error) {
    if (request === numRequests) failed.value = messageOf(error);
  }
}

/** @type {Promise<unknown>} */
let changing = Promise.resolve(); // changes are sent one at a time, as requests may overtake each other

/**
 * Change a recording's name, tags or notes. Returns whether it succeeded.
 * @param {string} id
 * @param {{name?: string, tags?: string[], notes?: string}} fields
 */
export const change = (id, fields) =>
  (changing = changing.then(() =>
    attempt(() => ask(`api/recordings/${id}`, { method: "PATCH", body: JSON.stringify(fields) })),
  ));

/** Delete a recording and its file. @param {string} id */
export const remove = (id) => attempt(() => ask(`api/recordings/${id}`, { method: "DELETE" }));

/** Write the followed run to a recording, from its first record on, and continue writing. @param {string} name */
export async function record(name) {
  const answer = await command("record", { name });
  if (answer) status.value = answer.status;
  refresh();
}

export async function stopRecording() {
  const answer = await command("record_stop");
  if (answer) status.value = answer.status;
  refresh();
}

let numOpened = 0; // files; the last one is shown, even if an earlier one takes longer to read

/** Open a chosen or dropped file: show it at once, and upload it if the server stores recordings. @param {File} file */
export async function openFile(file) {
  const fileNumber = ++numOpened;
  const isSmall = file.size <= MAX_LOADED;
  let shown = null;
  try {
    if (!isTrace(file.name, await file.slice(0, HEAD).arrayBuffer())) return;
    if (isSmall || isEmbedded || isSite) {
      const content = await file.arrayBuffer();
      if (fileNumber === numOpened) {
        markPlace();
        session.open(content);
        shown = own.log.value;
      }
    }
  } catch (error) {
    return unreadable(file.name, error);
  }
  if (isEmbedded || isSite) return;
  if (!library.value) await refresh();
  if (!library.value?.can_keep && shown) return;
  const entry = await attempt(() => upload(file));
  if (!entry) return;
  toast(t("library.kept", { name: entry.name }));
  if (shown && shown === own.log.value) session.keep(entry.id);
  else if (!shown && fileNumber === numOpened) {
    markPlace();
    session.watch(entry.id);
  }
}

/**
 * Upload the file and return its entry. Uses XMLHttpRequest, as fetch reports no upload progress.
 * @param {File} file
 * @returns {Promise<Entry>}
 */
function upload(file) {
  return new Promise((done, refused) => {
    const request = new XMLHttpRequest();
    const name = file.name.replace(/\.kvtrace$/, "");
    request.open("POST", `api/recordings?name=${encodeURIComponent(name)}`);
    request.responseType = "json";
    request.upload.addEventListener(
      "progress",
      ({ loaded, total }) => (uploading.value = { name, share: loaded / total }),
    );
    request.addEventListener("load", () => {
      if (request.status === 201) done(request.response);
      else refused(new Error(refusalText(request.response?.error ?? { message: String(request.status) })));
    });
    request.addEventListener("error", () => refused(new Error(t("error.no_answer"))));
    request.addEventListener("loadend", () => (uploading.value = null));
    uploading.value = { name, share: 0 };
    request.send(file);
  });
}

/** @param {string} address @param {RequestInit} [options] */
async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error(t("error.no_answer"));
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(refusalText(body.error));
  return body;
}

/** @param {unknown} error */
const messageOf = (error) => /** @type {Error} */ (error).message;

/**
 * Run `action`, report an error, and refresh the list. Returns the action's result or null.
 * @template T
 * @param {() => Promise<T>} action
 */
async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    toast(messageOf(error), "error");
    return null;
  } finally {
    await refresh();
  }
}
