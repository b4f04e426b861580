// Root component: the log in one of several views. Opening and intro are in the initial code; the other views
// are loaded when they are first shown.

import { opening } from "../control/opening.js";
import { t } from "../i18n/words.js";
import { useFocusOfViews } from "../kit/focus.js";
import { html } from "../kit/html.js";
import { Icon } from "../kit/icon.js";
import { lazy, lazyPanel } from "../kit/lazy.js";
import { Blackout, Notice } from "../panels/header/notice.js";
import { classState, startOpen } from "../state/classroom.js";
import { settings } from "../state/settings.js";
import { dismiss, log, longRun, toasts } from "../state/store.js";

const CLASS_SHEETS = ["lazy", "lazy_projector_view", "lazy_teacher_view"];

const Intro = lazyPanel(() => import("../panels/intro/panel.js"));
const Opening = lazyPanel(() => import("../panels/intro/opening_panel.js"));
const Classroom = lazyPanel(() => import("../panels/classroom/panel.js"), "classroom", CLASS_SHEETS);
const Workspace = lazy(() => import("./workspace.js").then((found) => found.Workspace));
const Present = lazy(() => import("./present.js").then((found) => found.PresentView));
const Lesson = lazy(() => import("./lesson.js").then((found) => found.LessonView));

export function App() {
  useFocusOfViews(opening.value ? "opening" : settings.viewMode.value);
  // the other views need data that a monitored server does not report and a long log does not load
  const workspaceOnly = log.value?.header.observed || longRun.value ? Workspace : null;
  const shown = opening.value
    ? Opening
    : {
        intro: workspaceOnly ?? Intro,
        present: workspaceOnly ?? Present,
        workspace: Workspace,
        lesson: Lesson,
        teacher: null,
      }[settings.viewMode.value];
  return html`${shown ? html`<${shown} />` : null}
    ${classState.value || startOpen.value ? html`<${Classroom} />` : null}<${Toasts} /><${Blackout} />`;
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
