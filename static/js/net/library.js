// The recordings of the server: the list, and what can be done with one. See docs/reference/protocol.md, "Recordings".

import { computed, signal } from "../../vendor/signals/signals.js";
import { isEmbedded } from "../state/embedded.js";
import { markPlace } from "../state/settings.js";
import { isSite } from "../state/site.js";
import { own, status, toast } from "../state/store.js";
import { t } from "../tell/words.js";
import { command } from "./commands.js";
import { session } from "./session.js";
import { isTrace, unreadable } from "./trace_file.js";

/**
 * What the server last answered; null before that.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Listing | null>}
 */
export const library = signal(null);
/**
 * Why the list could not be fetched, or null.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<string | null>}
 */
export const failed = signal(null);
/**
 * The upload under way, `share` from 0 to 1; null when there is none.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<{name: string, share: number} | null>}
 */
export const uploading = signal(null);
/** The recording that the followed run is being written to: {id, name}, or null. */
export const beingMade = computed(() => {
  const now = status.value?.recording;
  return now && now.ended === null ? now : null;
});

/**
 * @typedef {import("../core/wire.js").Answers["/api/recordings"]} Listing
 * @typedef {Listing["recordings"][number]} Entry
 */

const AT_ONCE = 64 * 2 ** 20; // bytes; a larger file is shown from the server, not read into the page
const HEAD = 8; // bytes that tell whether a file is a trace

let asked = 0; // lists: the last one asked for counts, whichever comes last

/** Fetch the list. */
export async function refresh() {
  const mine = ++asked;
  try {
    const found = await ask("api/recordings");
    if (mine === asked) [library.value, failed.value] = [found, null];
  } catch (error) {
    if (mine === asked) failed.value = messageOf(error);
  }
}

/** @type {Promise<unknown>} */
let changing = Promise.resolve(); // one change after the other: two requests may overtake each other

/**
 * Give a recording another name or other tags. Whether it was taken.
 *
 * @param {string} id
 * @param {{name?: string, tags?: string[], notes?: string}} fields
 */
export const change = (id, fields) =>
  (changing = changing.then(() =>
    attempt(() => ask(`api/recordings/${id}`, { method: "PATCH", body: JSON.stringify(fields) })),
  ));

/**
 * Delete a recording and its file.
 *
 * @param {string} id
 */
export const remove = (id) => attempt(() => ask(`api/recordings/${id}`, { method: "DELETE" }));

/**
 * Write the followed run to a recording from its first record on, and go on with it.
 *
 * @param {string} name
 */
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

let taken = 0; // files: the last one is shown, however long the one before takes to be read

/**
 * A file that was chosen or dropped: shown at once, and kept by the server where it keeps recordings.
 *
 * @param {File} file
 */
export async function take(file) {
  const mine = ++taken;
  const small = file.size <= AT_ONCE;
  let shown = null;
  try {
    if (!isTrace(file.name, await file.slice(0, HEAD).arrayBuffer())) return;
    if (small || isEmbedded || isSite) {
      const content = await file.arrayBuffer();
      if (mine === taken) {
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
  else if (!shown && mine === taken) {
    markPlace();
    session.watch(entry.id);
  }
}

/**
 * Send the file; its entry. Fetch tells nothing of how far an upload is, so this is the older request.
 *
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
      else refused(new Error(request.response?.error?.message ?? String(request.status)));
    });
    request.addEventListener("error", () => refused(new Error(t("error.no_answer"))));
    request.addEventListener("loadend", () => (uploading.value = null));
    uploading.value = { name, share: 0 };
    request.send(file);
  });
}

/**
 * @param {string} address
 * @param {RequestInit} [options]
 */
async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error(t("error.no_answer"));
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error.message);
  return body;
}

/** @param {unknown} error */
const messageOf = (error) => /** @type {Error} */ (error).message;

/**
 * Do it, say why when it cannot be done, and fetch the list again. What it gives, or null.
 *
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
