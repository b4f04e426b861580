// Pictures of many records in one zip. Shows each record, waits until it is drawn, stores the picture, and restores the
// view. PNGs are stored uncompressed, since they are already compressed. Finished parts move into Blobs, which the
// browser may store on disk, so the page holds only a few MiB at a time.

import { settings } from "../../state/settings.js";
import { fetching } from "../../state/store.js";
import { atExportResolution, pngOf, sheetOf } from "./sheet.js";

export const MAX_PICTURES = 500; // pictures in one zip
const FLUSH_BYTES = 8 * 2 ** 20; // bytes buffered before they move into a Blob
const TIMEOUT_MS = 8000; // per record; arrays that do not arrive in time are hatched, as on the page

/**
 * Wait until record `index` is painted, no animation runs and no array of it is being fetched.
 * @param {number} index
 */
async function untilDrawn(index) {
  const until = performance.now() + TIMEOUT_MS;
  let quiet = 0;
  while (quiet < 3 && performance.now() < until) {
    await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done));
    const { painted, moving } = document.documentElement.dataset;
    quiet = painted === String(index) && moving !== "true" && fetching.value === 0 ? quiet + 1 : 0;
  }
}

/**
 * Create a zip with one PNG for each record from `first` to `last` (both included, from 0) and `captions.txt`.
 * `panel()` returns the element, `caption(index)` its caption; `progress(done, total)` is called after each picture.
 * Throws an AbortError when `signal` is aborted. The page's view is restored afterwards.
 * @param {{
 *   first: number, last: number, panel: () => Element, caption: (index: number) => import("./sheet.js").Caption,
 *   progress: (done: number, total: number) => void, signal: AbortSignal,
 * }} options
 */
export async function zipOfRecords({ first, last, panel, caption, progress, signal }) {
  const { strToU8, Zip, ZipPassThrough } = await import("../../../vendor/fflate/fflate.js");
  const previous = { step: settings.step.value, sub: settings.sub.value, motion: settings.motion.value };
  const store = blobs();
  const zip = new Zip((error, chunk) =>
    error ? store.fail(error) : store.push(/** @type {Uint8Array<ArrayBuffer>} */ (chunk)),
  );
  /** @type {(name: string, bytes: Uint8Array) => void} */
  const add = (name, bytes) => {
    const file = new ZipPassThrough(name);
    zip.add(file);
    file.push(bytes, true);
  };
  /** @type {string[]} */
  const captions = [];
  const digits = String(last + 1).length;
  settings.motion.value = false;
  settings.sub.value = null; // complete records, not sub-steps
  try {
    await atExportResolution(async () => {
      for (let index = first; index <= last; index++) {
        signal.throwIfAborted();
        settings.step.value = index;
        await untilDrawn(index);
        const words = caption(index);
        const png = await pngOf(sheetOf(panel(), words));
        const name = `${String(index + 1).padStart(digits, "0")}.png`;
        captions.push(`${name}\t${words.facts}\t${words.sentence}`);
        add(name, new Uint8Array(await png.arrayBuffer()));
        progress(index - first + 1, last - first + 1);
      }
    });
    signal.throwIfAborted();
    add("captions.txt", strToU8(`${captions.join("\n")}\n`));
    zip.end();
    return store.finish();
  } finally {
    settings.motion.value = previous.motion;
    settings.step.value = previous.step;
    settings.sub.value = previous.sub;
  }
}

function blobs() {
  /** @type {Blob[]} */
  const finished = [];
  /** @type {BlobPart[]} */
  let buffered = [];
  let bytes = 0;
  /** @type {Error | null} */
  let failure = null;
  const flush = () => {
    finished.push(new Blob(buffered));
    buffered = [];
    bytes = 0;
  };
  return {
    /** @param {Uint8Array<ArrayBuffer>} chunk */
    push(chunk) {
      buffered.push(chunk);
      bytes += chunk.length;
      if (bytes >= FLUSH_BYTES) flush();
    },
    /** @param {Error} error */
    fail: (error) => (failure = error),
    finish() {
      if (failure) throw failure;
      flush();
      return new Blob(finished, { type: "application/zip" });
    },
  };
}
