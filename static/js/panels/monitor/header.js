// Header of a monitored run, for complete logs and for logs that are read in windows.

import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";

/** @param {{header: import("../../core/trace.js").Header}} props of a monitored server's log */
export const Panel = ({ header: { observed, model } }) => html`<h2>${t("monitor.of", {
  source: observed?.source ?? "?",
  model: model.name || "?",
})}</h2>
  <p>${t("monitor.read_only")}</p>`;
