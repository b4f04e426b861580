// Runs of followers' own: allowed or not, how many at once, and why no more.

import { askOfClass } from "../../control/class_asks.js";
import { html } from "../../kit/html.js";
import { desk, told } from "../../state/classroom.js";
import { bytesText, secondsText, t } from "../../tell/words.js";

export function Labs() {
  const now = desk.value;
  if (!now) return null;
  const on = told.value?.labs ?? false;
  const { by, lab_bytes: bytes, free_bytes: free, step_seconds: seconds } = now.labs_why;
  const why = t(`class.labs_why.${by}`, {
    bytes: bytesText(bytes),
    free: bytesText(free),
    seconds: seconds === null ? "" : secondsText(seconds),
  });
  const count = t("class.labs_now", { n: now.labs, most: now.labs_most, waiting: now.waiting });
  return html`<div class="class-labs"><button class="quiet" id="class-labs" aria-pressed=${on}
      onClick=${() => askOfClass("class_labs", { open: !on })}>${t(on ? "class.labs_on" : "class.labs_off")}</button>
    ${on ? html`<span class="hint">${count} ${why}</span>` : null}</div>`;
}
