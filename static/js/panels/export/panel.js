// Export: the run as a file, a panel as PNG or SVG, a range of records as images in a zip, and printing.

import { useState } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { exportOpen } from "../../control/models.js";
import { refusalText } from "../../i18n/language.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Numeric, Select } from "../../kit/inputs.js";
import { Sidebar } from "../../kit/sidebar.js";
import { runAddress } from "../../net/commands.js";
import { log, numRecords, toast, viewIndex } from "../../state/store.js";
import { embeddedTrace, hasTrace } from "../../state/without_server.js";
import { atExportResolution, pngOf, save, sheetOf } from "./sheet.js";
import { MAX_PICTURES, zipOfRecords } from "./steps.js";

const isLoading = signal(false);

function Run() {
  const page = runAddress("export.html");
  if (!numRecords.value || !(page || hasTrace)) return null;
  return html`<h2 class="side-title">${t("export.run")}</h2>
    ${page ? html`<p class="hint">${t("export.html_note")}</p>` : null}
    <div class="side-row">
      ${
        page
          ? html`<button class="quiet" id="export-html" disabled=${isLoading.value} aria-busy=${isLoading.value}
        onClick=${() => downloadPage(page)}>${t("export.html")}</button>`
          : null
      }
      ${
        page === null
          ? html`<button class="quiet" id="export-trace" onClick=${downloadLog}>${t("export.trace")}</button>`
          : html`<a class="quiet" id="export-trace" href=${runAddress("trace")} download>${t("export.trace")}</a>`
      }
    </div>`;
}

/** @param {string | null} address */
async function downloadPage(address) {
  isLoading.value = true;
  try {
    const answer = await fetch(address ?? "");
    if (!answer.ok) throw new Error(refusalText((await answer.json()).error));
    const [, name = "kvtheater.html"] =
      /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "") ?? [];
    save(await answer.blob(), name);
    toast(t("export.saved", { name }));
  } catch (error) {
    toast(t("export.html_failed", { reason: /** @type {Error} */ (error).message }), "error");
  } finally {
    isLoading.value = false;
  }
}

async function downloadLog() {
  const trace = await embeddedTrace();
  if (trace) save(new Blob([trace]), "run.kvtrace");
}

const chosen = signal("stage");
/**
 * @type {import("../../../vendor/signals/signals.js").Signal<{done: number, total: number, cancel: () => void} | null>}
 */
const series = signal(null); // progress of the zip, or null

export function Panel() {
  viewIndex.value; // dependency: which panels exist changes with the record
  return html`<${Sidebar} id="export" label=${t("header.export")} close=${() => (exportOpen.value = false)}>
    <${Run} />
    <h2 class="side-title">${t("export.title")}</h2>
    <${SinglePanel} />
    <h2 class="side-title">${t("export.series")}</h2>
    ${numRecords.value > 0 ? html`<${Series} />` : html`<p class="hint">${t("stage.none")}</p>`}
    <h2 class="side-title">${t("export.print")}</h2>
    <p class="hint">${t("export.print_note")}</p>
    <button class="quiet" id="export-print" onClick=${() => print()}>${t("export.print_button")}</button>
  <//>`;
}

function SinglePanel() {
  const found = panels();
  const key = found.some((panel) => panel.key === chosen.value) ? chosen.value : found[0]?.key;
  return html`<label class="field">
      <span>${t("export.panel")}</span>
      <${Select} id="export-panel" value=${key} choices=${found.map((panel) => [panel.key, panel.title])}
        commit=${(/** @type {string} */ value) => (chosen.value = value)} />
    </label>
    <div class="side-row">
      <button class="quiet" id="export-png" onClick=${() => downloadPanel(key, "png")}>${t("export.png")}</button>
      <button class="quiet" id="export-svg" onClick=${() => downloadPanel(key, "svg")}>${t("export.svg")}</button>
    </div>
    <p class="hint">${t("export.note")}</p>`;
}

/** @param {string} key @param {"png" | "svg"} kind */
async function downloadPanel(key, kind) {
  try {
    await atExportResolution(async () => {
      const panel = panelOf(key);
      if (!panel) return toast(t("export.gone"), "error");
      const sheet = sheetOf(panel.element, captionOf(panel.title, viewIndex.value));
      const blob = kind === "svg" ? new Blob([sheet.svg], { type: "image/svg+xml" }) : await pngOf(sheet);
      const name = `kvtheater-${key}-${viewIndex.value + 1}.${kind}`;
      save(blob, name);
      toast(t("export.saved", { name }));
    });
  } catch (error) {
    toast(t("export.failed", { reason: /** @type {Error} */ (error).message }), "error");
  }
}

/**
 * Caption of a picture of record `index`: the panel's title, the record's position in the run, and the sentence.
 * @param {string} title @param {number} index
 */
function captionOf(title, index) {
  const record = log.value?.records[index];
  const model = log.value?.header.model.name ?? "";
  const facts = record
    ? t("export.record", { i: index + 1, n: numRecords.value, step: record.step, model })
    : t("export.empty", { model });
  return { title, facts, sentence: shownSentence() };
}

/** Text of the sentence without its phase label, which the sentence repeats. */
function shownSentence() {
  const copy = /** @type {Element | undefined} */ (document.getElementById("sentence")?.cloneNode(true));
  copy?.querySelector(".phase")?.remove();
  return copy?.textContent?.replace(/\s+/g, " ").trim() ?? "";
}

function Series() {
  const [entered, setRange] = useState({ first: 1, last: numRecords.value });
  // the run may have been replaced by a shorter one
  const range = { first: Math.min(entered.first, numRecords.value), last: Math.min(entered.last, numRecords.value) };
  const now = series.value;
  /** @type {(id: string, name: "first" | "last", label: string) => import("../../kit/html.js").Children} */
  const field = (id, name, label) => html`<label class="field">
    <span>${label}</span>
    <${Numeric} id=${id} bounds=${{ min: 1, max: numRecords.value, whole: true }} value=${range[name]}
      disabled=${now !== null} commit=${(/** @type {number} */ n) => setRange({ ...range, [name]: n })} />
  </label>`;
  return html`<p class="hint">${t("export.series_note")}</p>
    <div class="side-row">${field("export-from", "first", t("export.from"))} ${field(
      "export-to",
      "last",
      t("export.to"),
    )}</div>
    ${
      now
        ? html`<div class="side-row">
          <progress id="export-progress" max=${now.total} value=${now.done} aria-label=${t("export.series")}></progress>
          <span class="num">${t("export.progress", now)}</span>
          <button class="quiet" id="export-cancel" onClick=${now.cancel}>${t("export.cancel")}</button>
        </div>`
        : html`<button class="quiet" id="export-zip" onClick=${() => downloadSeries(range)}>${t("export.zip")}</button>`
    }`;
}

/** @param {{first: number, last: number}} range */
async function downloadSeries({ first, last }) {
  const total = last - first + 1;
  if (total > MAX_PICTURES || total < 1) return toast(t("export.too_many", { most: MAX_PICTURES }), "error");
  const panel = panelOf(chosen.value) ?? panels()[0];
  const control = new AbortController();
  /** @param {number} done */
  const onProgress = (done) => (series.value = { done, total, cancel: () => control.abort() });
  onProgress(0);
  try {
    const zip = await zipOfRecords({
      first: first - 1,
      last: last - 1,
      panel: () => (panelOf(panel.key) ?? panel).element,
      caption: (index) => captionOf(panel.title, index),
      progress: onProgress,
      signal: control.signal,
    });
    const name = `kvtheater-${panel.key}-${first}-${last}.zip`;
    save(zip, name);
    toast(t("export.saved", { name }));
  } catch (error) {
    const { name, message } = /** @type {Error} */ (error);
    toast(name === "AbortError" ? t("export.cancelled") : t("export.failed", { reason: message }));
  } finally {
    series.value = null;
  }
}

// Parts of the page that can be exported as a picture: the stage, and every visible element with a panel title.

/**
 * Return all exportable parts in document order. `key` identifies a part when the page has changed.
 * @returns {{key: string, title: string, element: Element}[]}
 */
export function panels() {
  /** @type {ReturnType<typeof panels>} */
  const found = [];
  /** @type {(key: string, title: string, element: Element | null) => void} */
  const add = (key, title, element) => {
    if (element && isVisible(element)) found.push({ key, title, element });
  };
  add("page", t("export.page"), document.querySelector("main"));
  add("stage", t("region.stage"), document.getElementById("region-stage"));
  add("token-row", t("export.token_row"), document.querySelector("#region-stage .token-row"));
  for (const heading of document.querySelectorAll("main .panel-title")) {
    const element = heading.closest("section, figure, .panel, .memory-map");
    const title = titleOf(heading);
    if (element && title) add(element.id || (element.className.split(" ").at(-1) ?? ""), title, element);
  }
  return found;
}

/** @param {string} key */
const panelOf = (key) => panels().find((panel) => panel.key === key) ?? null;

/** @param {Element} element */
const isVisible = (element) =>
  element.getClientRects().length > 0 && element.clientWidth > 0 && element.clientHeight > 0;

/** Text of a heading without fidelity marks and controls. @param {Element} heading */
function titleOf(heading) {
  const copy = /** @type {Element} */ (heading.cloneNode(true));
  for (const part of copy.querySelectorAll(".fidelity, button, select, input, .visually-hidden")) part.remove();
  return (copy.textContent ?? "").trim();
}
