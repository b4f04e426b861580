// View synchronization of a class: followers see the driver's view, may leave it to roam, and return.

import { batch, effect, untracked } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { end, leaveClass } from "../net/classroom.js";
import { BARRED } from "../net/errors.js";
import { session } from "../net/session.js";
import {
  attends,
  classState,
  dismissed,
  drives,
  isLed,
  ownSeat,
  pressed,
  removed,
  roaming,
} from "../state/classroom.js";
import { parseQuery, settings, TABLE, writeQuery } from "../state/settings.js";
import * as store from "../state/store.js";
import { requestOfClass } from "./class_requests.js";
import * as playback from "./playback.js";
import { takeOver, viewOnlyPlayer } from "./player.js";
import * as present from "./present.js";

const CAST_INTERVAL = 100; // ms between messages with the driver's view
const INTENT = 700; // ms after a touch or key press in which a change counts as the user's
const NARROW = 700; // px; narrower windows show the present view instead of any other

/** Settings sent by the driver: all view settings except the region, which depends on the device's size. */
const CAST = Object.fromEntries(Object.entries(TABLE).filter(([name, row]) => row.place && name !== "region"));
const all = /** @type {Record<string, import("../../vendor/signals/signals.js").Signal<unknown>>} */ (
  /** @type {unknown} */ (settings)
);

/** Return to the class's view. */
export function returnToClass() {
  roaming.value = false;
  applyView();
}

/** Leave the class's view and roam. */
export function wander() {
  if (!classState.peek()?.held) roaming.value = true;
}

/** Enter or leave a run of one's own on the class's model, or the queue for one. @param {boolean} open */
export async function lab(open) {
  if (!(await requestOfClass("class_lab", { open }))) return;
  if (!open) return returnToClass();
  toLab();
}

/** Switch to the user's own run, if it exists. */
async function toLab() {
  const run = ownSeat.peek()?.lab;
  if (!run || theater() === run || classState.peek()?.held) return;
  roaming.value = true;
  settings.viewMode.value = "workspace";
  await session.watch(run);
}

/** Press a key of a remote control. @param {"next" | "back"} key */
export const press = (key) => requestOfClass("class_press", { key });

/** Start following the class, while the page is in one. */
export function followClass() {
  let touched = -INTENT; // no touch yet
  for (const event of ["pointerdown", "keydown", "wheel", "touchstart"])
    addEventListener(event, () => (touched = performance.now()), { capture: true, passive: true });
  effect(() => {
    const isAway = ["lost", "gone"].includes(store.connection.value); // the server would refuse a run that has ended
    if (drives.value && !isAway) cast(theater(), view()); // also after a reconnect
  });
  effect(() => {
    if (classState.value?.held && roaming.value && isLed.value) untracked(returnToClass);
  });
  effect(() => {
    const now = classState.value;
    if (now && isLed.value && !roaming.value) untracked(applyView);
  });
  effect(() => {
    const [here, run] = [view(), theater()];
    untracked(() => {
      const now = classState.peek();
      if (!now || !isLed.peek() || roaming.peek() || numSwitches || performance.now() - touched > INTENT) return;
      if (same(here, adapted(now.view)) && (now.theater === null || run === now.theater)) return;
      if (now.held) applyView();
      else roaming.value = true;
    });
  });
  let waited = false; // in the queue for a run of one's own
  effect(() => {
    const own = ownSeat.value;
    const isMine = waited && Boolean(own?.lab);
    waited = own?.queue !== null && own?.queue !== undefined;
    if (isMine) untracked(toLab);
  });
  effect(() => {
    if (!removed.value) return;
    removed.value = false;
    untracked(() => {
      leaveClass();
      store.toast(t("class.sent_away"));
    });
  });
  effect(() => {
    if (session.problem.value?.key === BARRED && ownSeat.value) untracked(end); // the pass is no longer valid
  });
  effect(() => {
    // hides the controls that drive the run
    document.documentElement.dataset.led = String(isLed.value && !roaming.value);
  });
  effect(() => {
    const { key, lesson } = pressed.value ?? {};
    untracked(() => {
      if (!drives.peek()) return;
      if (lesson) return void batch(() => ([settings.lesson.value, settings.viewMode.value] = [lesson, "lesson"]));
      if (!key) return;
      const poll = classState.peek()?.poll;
      if (poll?.phase === "shown") dismissed.value = poll.id; // its answers would cover what comes next
      key === "next" ? present.next() : playback.previous();
    });
  });
  /** @type {(() => void) | null} */
  let release = null;
  effect(() => {
    const isFollowing = isLed.value && theater() === classState.value?.theater;
    untracked(() => {
      if (isFollowing) release ??= takeOver(ledPlayer);
      else {
        release?.();
        release = null;
      }
    });
  });
}

/** Return the id of the run on this page's stage. */
const theater = () => settings.recording.value ?? settings.theater.value;

/** Return this page's view settings, in the text form of a link. @returns {Record<string, string>} */
const view = () =>
  Object.fromEntries(
    new URLSearchParams(writeQuery(Object.fromEntries(Object.keys(CAST).map((name) => [name, all[name].value])), CAST)),
  );

/**
 * Adapt the class's view to this device.
 * @param {Record<string, string>} given
 * @returns {Record<string, unknown>} settings by name
 */
function adapted(given) {
  const values = parseQuery(String(new URLSearchParams(given)), CAST);
  const viewMode = values.viewMode ?? TABLE.viewMode.initial;
  if (!attends.peek() && settings.viewMode.peek() === "teacher") return { ...values, viewMode: "teacher" };
  if (!attends.peek() || viewMode === "lesson") return values;
  return { ...values, viewMode: viewMode === "intro" || innerWidth < NARROW ? "present" : viewMode };
}

/** @param {Record<string, string>} shown as in a link @param {Record<string, unknown>} values settings by name */
const same = (shown, values) =>
  writeQuery(parseQuery(String(new URLSearchParams(shown)), CAST), CAST) === writeQuery(values, CAST);

let numSwitches = 0; // pending switches of the run; changes during these are not the user's

/** Apply the class's view. */
async function applyView() {
  const now = classState.peek();
  if (!now?.theater) return;
  const isElsewhere = session.run?.theater !== now.theater && store.connection.peek() !== "gone";
  if (theater() !== now.theater || isElsewhere) {
    numSwitches += 1;
    await session.watch(now.theater);
    numSwitches -= 1;
  }
  if (classState.peek() !== now || roaming.peek()) return; // the class or the user has moved on
  const values = adapted(now.view);
  batch(() => {
    for (const [name, row] of Object.entries(CAST)) all[name].value = values[name] ?? row.initial;
  });
}

let castAt = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let later;

/**
 * Send this page's view to the class, at most once per CAST_INTERVAL ms.
 * @param {string | null} run
 * @param {Record<string, string>} place
 */
function cast(run, place) {
  clearTimeout(later);
  const wait = Math.max(0, castAt + CAST_INTERVAL - performance.now());
  later = setTimeout(() => {
    castAt = performance.now();
    if (drives.peek()) requestOfClass("class_cast", { theater: run, view: place });
  }, wait);
}

/**
 * Player of a follower. It moves through existing records; only the driver adds records.
 * @type {import("./player.js").Player}
 */
const ledPlayer = {
  ...viewOnlyPlayer,
  running: () => store.pace.value !== null,
  sentence: () => (store.viewIndex.value < 0 && !store.numRecords.value ? t("class.begins") : null),
};
