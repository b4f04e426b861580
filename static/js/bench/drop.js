// Records of other machines, dropped on the page or chosen as files. They are not uploaded.

import { signal } from "../../vendor/signals/signals.js";
import { inLanguage, t } from "../i18n/words.js";
import { NotARecord, parseRecord } from "./parse.js";
import { addDropped, notify } from "./store.js";
import { machineText } from "./where.js";

const MAX_BYTES = 64 << 20; // same limit as in the command-line reader

/** Whether files are dragged over the page. */
export const hovering = signal(false);

/** Open files: show each valid record, and report the error of each invalid one. @param {File[]} files */
export async function openFiles(files) {
  for (const file of files) {
    try {
      if (/\.kvtrace$/i.test(file.name)) throw new NotARecord("bench.drop.trace");
      if (file.size > MAX_BYTES) throw new NotARecord("bench.drop.large");
      const record = parseRecord(await file.text());
      addDropped(file.name, record);
      notify(t("bench.drop.added", { title: inLanguage(record.scenario.title), machine: machineText(record) }));
    } catch (error) {
      if (!(error instanceof NotARecord)) throw error;
      notify(t(error.message, { ...error.values, name: file.name }), true);
    }
  }
}

/** @param {DragEvent} event */
const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

/** Accept files dropped anywhere on the page. */
export function acceptDrops() {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let leaving;
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    clearTimeout(leaving);
    hovering.value = true;
    leaving = setTimeout(() => (hovering.value = false), 300); // `dragover` repeats while files are over the page
  });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    hovering.value = false;
    openFiles([...(event.dataTransfer?.files ?? [])]);
  });
}
