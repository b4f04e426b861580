// Entry point of the page: settings, theme, view, connection.

import { render } from "../vendor/preact/preact.js";
import { effect } from "../vendor/signals/signals.js";
import { followDraft, followFocus, followSpeed } from "./control/actions.js";
import { followHistory, followOpened } from "./control/deep_link.js";
import { listenToKeys } from "./control/keyboard.js";
import { followFilm, followOpening, loadFutures, offerOpening } from "./control/opening.js";
import { followPlaying } from "./control/playback.js";
import { playLinkedScene } from "./control/restart.js";
import { offerTour } from "./control/tour.js";
import { t } from "./i18n/words.js";
import { rove } from "./kit/focus.js";
import { startMotion } from "./kit/frame.js";
import { html } from "./kit/html.js";
import { isPhone } from "./kit/measure.js";
import { followTheme, localStorageOrNull } from "./kit/preferences.js";
import { openFile } from "./net/library.js";
import { session } from "./net/session.js";
import { followLanguage } from "./net/words.js";
import { App } from "./page/app.js";
import { followPrinting } from "./page/print.js";
import { enters, presents, startOpen } from "./state/classroom.js";
import { followSelection } from "./state/selection.js";
import { connectSettings, parseAddress, settings } from "./state/settings.js";
import { hasLesson, isSite } from "./state/without_server.js";

const address = parseAddress(location);
connectSettings(location, history, localStorageOrNull());
if (hasLesson && !address.viewMode) settings.viewMode.value = "lesson";
// a link from a wide window has no region for phones
if (isPhone() && address.detail && !address.region) settings.region.value = "detail";
offerOpening(localStorageOrNull(), address);

followTheme();
effect(() => {
  document.documentElement.dataset.viewMode = settings.viewMode.value;
});
await followLanguage();
effect(() => {
  document.title = t("app.title");
});

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
startMotion();
listenToKeys();
for (const stops of [".fidelity", ".header-links > *"]) rove(stops);
followPlaying();
followSelection();
followSpeed();
followFocus();
followDraft();
followPrinting();
acceptDroppedTraces();
offerTour(localStorageOrNull());
followOpening();
followFilm();
if (isSite) loadFutures();
followOpened();
followHistory();
loadLessons();
loadClasses();
playLinkedScene();
session.start();

/** Load the code of lessons on demand. */
function loadLessons() {
  const wait = effect(() => {
    if (settings.viewMode.value !== "lesson" && !settings.lesson.value) return;
    import("./control/lesson.js").then((found) => found.followLessons(localStorageOrNull()));
    queueMicrotask(() => wait());
  });
}

/** Load the code of classes with the first class. */
function loadClasses() {
  if (settings.teach.peek() && !settings.class.peek()) startOpen.value = true;
  // only a presenter has the teacher view, but followers or pages without a class may open its address
  effect(() => {
    if (settings.viewMode.value === "teacher" && !presents.value && !enters.value)
      settings.viewMode.value = "workspace";
  });
  const wait = effect(() => {
    if (!settings.class.value) return;
    import("./control/classroom.js").then((found) => found.followClass());
    import("./control/class_lesson.js").then((found) => found.followClassLesson());
    queueMicrotask(() => wait());
  });
}

/** Open and upload `.kvtrace` files dropped on the page. */
function acceptDroppedTraces() {
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    openFile(file);
  });
}
