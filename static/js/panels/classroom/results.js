// Results of a class: tables and a summary page to download, and storage on the server until a date.

import { signal } from "../../../vendor/signals/signals.js";
import { requestOfClass } from "../../control/class_requests.js";
import { t } from "../../i18n/words.js";
import { withDates } from "../../kit/dates.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { fileOf, leaveClass } from "../../net/classroom.js";
import { runAddress } from "../../net/commands.js";
import { showFailure } from "../../net/errors.js";
import { attendance, startOpen } from "../../state/classroom.js";
import { connection } from "../../state/store.js";

const DAYS = 30; // default storage period of a class
const FILES = [
  ["answers.csv", "class.file.answers"],
  ["questions.csv", "class.file.questions"],
  ["page.html", "class.file.page"],
];

/** Storage date entered by the presenter; empty: the default. */
const until = signal("");

/** @param {{open?: boolean}} props */
export function Results({ open = false }) {
  const keptUntil = attendance.value?.kept_until ?? null;
  return html`<details class="class-after" open=${open}><summary>${t("class.after")}</summary>
    <p class="class-files"><${Files} />
      ${
        runAddress("trace")
          ? html`<a class="quiet" id="class-run" href=${runAddress("trace")} download>${t("class.file.run")}</a>`
          : null
      }</p>
    <p role="status">${withDates(keptUntil ? t("class.kept", { date: keptUntil }) : t("class.not_kept"))}</p>
    ${
      keptUntil
        ? html`<button class="quiet" id="class-unkeep" onClick=${() => requestOfClass("class_unkeep", {})}>${t(
            "class.unkeep",
          )}</button>`
        : html`<label class="class-keep">${t("class.keep_until")} <input id="class-until" type="date"
            value=${until.value || inDays(DAYS)} min=${inDays(0)} onInput=${withValue((day) => (until.value = day))} />
            <button class="command" id="class-keep"
              onClick=${() => requestOfClass("class_keep", { until: until.value || inDays(DAYS) })}>${t(
                "class.keep",
              )}</button></label>`
    }
  </details>`;
}

const Files = () =>
  FILES.map(
    ([name, text]) =>
      html`<button class="quiet" key=${name} data-file=${name} onClick=${() => download(name)}>${t(text)}</button>`,
  );

/** Stored results of a class that the server no longer holds in memory. */
export function Stored() {
  const keptUntil = attendance.value?.kept_until ?? null;
  if (!keptUntil) return html`<p>${t("class.forgotten.desk")}</p>`;
  return html`<p>${withDates(t("class.forgotten.kept", { date: keptUntil }))}</p>
    <p class="class-files"><${Files} /></p>`;
}

/** Local date in ISO format. @param {number} days from today */
function inDays(days) {
  const day = new Date();
  day.setDate(day.getDate() + days);
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
}

/** @param {string} name */
async function download(name) {
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await fileOf(name));
    link.download = `class-${name}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    showFailure(error);
  }
}

/** Button that opens a new class after the server has lost the previous one. */
export const ReopenButton = () =>
  html`<button class="command primary" id="class-another" disabled=${connection.value === "lost"}
    onClick=${reopen}>${t("class.another")}</button>`;

function reopen() {
  leaveClass();
  startOpen.value = true;
}
