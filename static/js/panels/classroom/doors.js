// The doors of the class, on the presenter's own screen: how many came from where, and letting nobody else in.

import { askOfClass } from "../../control/class_asks.js";
import { html } from "../../kit/html.js";
import { desk } from "../../state/classroom.js";
import { t } from "../../tell/words.js";

export function Doors() {
  const now = desk.value;
  if (!now) return null;
  const { open, origins, seats } = now;
  const others = seats.length - origins.reduce((sum, one) => sum + one.seats, 0);
  const lines = origins.map((one) => t("class.origin", { n: one.seats, here: one.here, origin: one.origin }));
  if (others > 0) lines.push(t("class.origin_others", { n: others }));
  return html`<div class="class-doors"><button class="quiet" id="class-doors" aria-pressed=${!open}
      onClick=${() => askOfClass("class_doors", { open: !open })}>${t(
        open ? "class.doors_close" : "class.doors_open",
      )}</button>
    ${open ? null : html`<span class="hint" role="status">${t("class.doors_closed")}</span>`}
    ${
      lines.length
        ? html`<details class="class-origins"><summary>${t("class.origins", { n: seats.length })}</summary>
          <ul>${lines.map((line) => html`<li class="num" key=${line}>${line}</li>`)}</ul></details>`
        : null
    }</div>`;
}
