// Lesson view: the lesson, and beside it the part of the page that it explains, live and in full size.

import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";
import { lazy, lazyPanel } from "../kit/lazy.js";
import { isPhone } from "../kit/measure.js";
import { canRace, NeedsModel } from "../panels/lesson/needs_model.js";
import { isInPool } from "../panels/lesson/prediction.js";
import { Panel as Memory } from "../panels/memory/panel.js";
import { Panel as Stage } from "../panels/stage/panel.js";
import { Panel as Transport } from "../panels/transport/panel.js";
import { currentLesson, shownPart } from "../state/lessons.js";
import { settings } from "../state/settings.js";
import { provenance } from "../state/store.js";
import { DETAIL_PANELS } from "./detail_panels.js";
import { Overlays } from "./overlays.js";

const SHEETS = [
  "lazy",
  "lazy_figure",
  "lazy_marks",
  "lazy_allocator",
  "lazy_lesson_list",
  "lazy_print",
  "lazy_prompt_order",
];

const Lesson = lazyPanel(() => import("../panels/lesson/panel.js"), "lesson", SHEETS);
const Marks = lazy(() => import("../panels/lesson/marks.js").then((found) => found.Marks));
const Provenance = lazyPanel(() => import("../panels/provenance/panel.js"), "provenance");

export function LessonView() {
  const isLoaded = currentLesson.value !== null;
  // on a phone, the figure is above the lesson
  const isOpen = settings.lesson.value !== null && (isLoaded || isPhone());
  return html`<div class="lesson-view" data-open=${isOpen}>
    <${Lesson} />
    ${isOpen ? (isLoaded ? html`<${Figure} />` : html`<div class="lesson-stage"></div>`) : null}
  </div>
  <${Overlays} />`;
}

const FULL_HEIGHT = new Set(["pool", "race"]); // parts that take the full height

function Figure() {
  const part = shownPart.value?.part ?? "stage";
  const panel = DETAIL_PANELS.find(({ name }) => name === part);
  const isMissing = part === "race" && !canRace();
  return html`<div class="lesson-stage">
    <div class="regions lesson-regions" data-region="lesson" data-part=${part}
      data-pool=${isInPool.value}>
      ${provenance.value ? html`<${Provenance} />` : null}
      ${FULL_HEIGHT.has(part) ? null : html`<${Stage} />`}
      ${
        panel
          ? html`<section class="region detail" aria-label=${t(`detail.${part}`)} data-panel=${part}>
            <h2 class="visually-hidden">${t(`detail.${part}`)}</h2>
            <div class="detail-panel">${isMissing ? html`<${NeedsModel} />` : html`<${panel.component} />`}</div>
          </section>`
          : html`<${Memory} />`
      }
    </div>
    <${Transport} />
    <${Marks} />
  </div>`;
}
