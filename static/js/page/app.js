// Root component: the log in one of three views. Opening and intro are in the initial code; workspace and room view are
// loaded when they are first shown.

import { opening } from "../control/opening.js";
import { t } from "../i18n/words.js";
import { useFocusOfViews } from "../kit/focus.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/icon.js";
import { lazy, lazyPanel } from "../kit/lazy.js";
import { Blackout, Notice } from "../panels/header/notice.js";
import { startOpen, told } from "../state/classroom.js";
import { settings } from "../state/settings.js";
import { dismiss, log, longRun, toasts } from "../state/store.js";

const CLASS_SHEETS = ["late", "late_wall", "late_desk"];

const Look = lazyPanel(() => import("../panels/look/panel.js"));
const Opening = lazyPanel(() => import("../panels/look/opening_panel.js"));
const Classroom = lazyPanel(() => import("../panels/classroom/panel.js"), "classroom", CLASS_SHEETS);
const Everything = lazy(() => import("./workspace.js").then((found) => found.Everything));
const Room = lazy(() => import("./present.js").then((found) => found.Room));
const Learn = lazy(() => import("./lesson.js").then((found) => found.Learn));

export function App() {
  useFocusOfViews(opening.value ? "opening" : settings.distance.value);
  // the other views need data that a monitored server does not report and a long log does not load
  const whole = log.value?.header.observed || longRun.value ? Everything : null;
  const shown = opening.value
    ? Opening
    : { look: whole ?? Look, room: whole ?? Room, bench: Everything, learn: Learn, desk: null }[
        settings.distance.value
      ];
  return html`${shown ? html`<${shown} />` : null}
    ${told.value || startOpen.value ? html`<${Classroom} />` : null}<${Toasts} /><${Blackout} />`;
}

function Toasts() {
  return html`<div class="toasts" role="alert" id="toasts">
    <${Notice} />
    ${toasts.value.map(
      (toast) => html`<p class=${`toast ${toast.tone}`} key=${toast.id}>
        ${toast.text}<button class="tool small" aria-label=${t("help.close")}
          onClick=${() => dismiss(toast.id)}><${Icon} name="close" /></button>
      </p>`,
    )}
  </div>`;
}
