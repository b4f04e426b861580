// Taking the run itself out: as one HTML file that shows it without a server, and as the log alone.

import { signal } from "../../../vendor/signals/signals.js";
import { html } from "../../kit/html.js";
import { runAddress } from "../../net/commands.js";
import { embeddedTrace, hasTrace } from "../../state/embedded.js";
import { numRecords, toast } from "../../state/store.js";
import { t } from "../../tell/words.js";
import { save } from "./sheet.js";

const making = signal(false);

export function Run() {
  const page = runAddress("export.html");
  if (!numRecords.value || !(page || hasTrace)) return null;
  return html`<h2 class="side-title">${t("export.run")}</h2>
    ${page ? html`<p class="hint">${t("export.html_note")}</p>` : null}
    <div class="side-row">
      ${
        page
          ? html`<button class="quiet" id="export-html" disabled=${making.value} aria-busy=${making.value}
        onClick=${() => takePage(page)}>${t("export.html")}</button>`
          : null
      }
      ${
        page === null
          ? html`<button class="quiet" id="export-trace" onClick=${takeLog}>${t("export.trace")}</button>`
          : html`<a class="quiet" id="export-trace" href=${runAddress("trace")} download>${t("export.trace")}</a>`
      }
    </div>`;
}

/** @param {string | null} address */
async function takePage(address) {
  making.value = true;
  try {
    const answer = await fetch(address ?? "");
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const [, name = "kvtheater.html"] =
      /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "") ?? [];
    save(await answer.blob(), name);
    toast(t("export.saved", { name }));
  } catch (error) {
    toast(t("export.html_failed", { reason: /** @type {Error} */ (error).message }), "error");
  } finally {
    making.value = false;
  }
}

async function takeLog() {
  const trace = await embeddedTrace();
  if (trace) save(new Blob([trace]), "run.kvtrace");
}
