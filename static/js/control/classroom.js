// View synchronization of a class: followers look where the driver looks, may roam on their own, and come back.

import { batch, effect, untracked } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { end, leaveClass } from "../net/classroom.js";
import { BARRED } from "../net/errors.js";
import { session } from "../net/session.js";
import { attends, drives, isLed, mine, pressed, roaming, sentAway, told } from "../state/classroom.js";
import { parseQuery, settings, TABLE, writeQuery } from "../state/settings.js";
import * as store from "../state/store.js";
import { askOfClass } from "./class_requests.js";
import * as playback from "./playback.js";
import { onlyLooking, takeOver } from "./player.js";
import * as room from "./present.js";

const CAST_EVERY = 100; // ms between two messages with the driver's view
const INTENT = 700; // ms after a touch or a key within which a change counts as the user's own
const NARROW = 700; // px; narrower windows show the room view in place of any other

/** Settings cast by the driver: all view settings except the one that depends on this device's size. */
const CAST = Object.fromEntries(Object.entries(TABLE).filter(([name, row]) => row.place && name !== "region"));
const all = /** @type {Record<string, import("../../vendor/signals/signals.js").Signal<unknown>>} */ (
  /** @type {unknown} */ (settings)
);

/** Return to the class's view. */
export function comeBack() {
  roaming.value = false;
  lead();
}

/** Leave the class's view to roam. */
export function wander() {
  if (!told.peek()?.held) roaming.value = true;
}

/** Enter or leave an own run on the class's model, or the queue for one. @param {boolean} open */
export async function lab(open) {
  if (!(await askOfClass("class_lab", { open }))) return;
  if (!open) return comeBack();
  toLab();
}

/** Switch to the own run once it exists. */
async function toLab() {
  const run = mine.peek()?.lab;
  if (!run || theater() === run || told.peek()?.held) return;
  roaming.value = true;
  settings.distance.value = "bench";
  await session.watch(run);
}

/** Press a key of a remote control. @param {"next" | "back"} key */
export const press = (key) => askOfClass("class_press", { key });

/** Start following the class, while the page is in one. */
export function followClass() {
  let touched = -INTENT; // no touch yet
  for (const event of ["pointerdown", "keydown", "wheel", "touchstart"])
    addEventListener(event, () => (touched = performance.now()), { capture: true, passive: true });
  effect(() => {
    if (drives.value && store.connection.value !== "lost") cast(theater(), view()); // sent again after a reconnect
  });
  effect(() => {
    if (told.value?.held && roaming.value && isLed.value) untracked(comeBack);
  });
  effect(() => {
    const now = told.value;
    if (now && isLed.value && !roaming.value) untracked(lead);
  });
  effect(() => {
    const [here, run] = [view(), theater()];
    untracked(() => {
      const now = told.peek();
      if (!now || !isLed.peek() || roaming.peek() || leading || performance.now() - touched > INTENT) return;
      if (same(here, wanted(now.view)) && (now.theater === null || run === now.theater)) return;
      if (now.held) lead();
      else roaming.value = true;
    });
  });
  let waited = false; // for an own run
  effect(() => {
    const own = mine.value;
    const isMine = waited && Boolean(own?.lab);
    waited = own?.queue !== null && own?.queue !== undefined;
    if (isMine) untracked(toLab);
  });
  effect(() => {
    if (!sentAway.value) return;
    sentAway.value = false;
    untracked(() => {
      leaveClass();
      store.toast(t("class.sent_away"));
    });
  });
  effect(() => {
    if (session.trouble.value?.key === BARRED && mine.value) untracked(end); // the pass is no longer valid
  });
  effect(() => {
    // hides the controls that drive the run
    document.documentElement.dataset.led = String(isLed.value && !roaming.value);
  });
  effect(() => {
    const { key, lesson } = pressed.value ?? {};
    untracked(() => {
      if (!drives.peek()) return;
      if (lesson) batch(() => ([settings.lesson.value, settings.distance.value] = [lesson, "learn"]));
      else if (key) key === "next" ? room.next() : playback.previous();
    });
  });
  /** @type {(() => void) | null} */
  let release = null;
  effect(() => {
    const looks = isLed.value && theater() === told.value?.theater;
    untracked(() => {
      if (looks) release ??= takeOver(ledPlayer);
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
 *
 * @param {Record<string, string>} given
 */
function wanted(given) {
  const distance = given.distance ?? "bench";
  if (settings.distance.peek() === "desk") return { ...given, distance: "desk" };
  if (!attends.peek() || distance === "learn") return given;
  return { ...given, distance: distance === "look" || innerWidth < NARROW ? "room" : distance };
}

/** @param {Record<string, string>} a @param {Record<string, string>} b */
const same = (a, b) =>
  writeQuery(parseQuery(String(new URLSearchParams(a)), CAST), CAST) ===
  writeQuery(parseQuery(String(new URLSearchParams(b)), CAST), CAST);

let leading = 0; // number of pending switches of the run: changes meanwhile are not the user's

/** Apply the class's view. */
async function lead() {
  const now = told.peek();
  if (!now?.theater) return;
  const isElsewhere = session.run?.theater !== now.theater && store.connection.peek() !== "gone";
  if (theater() !== now.theater || isElsewhere) {
    leading += 1;
    await session.watch(now.theater);
    leading -= 1;
  }
  if (told.peek() !== now || roaming.peek()) return; // the class or the user has moved on meanwhile
  const values = parseQuery(String(new URLSearchParams(wanted(now.view))), CAST);
  batch(() => {
    for (const [name, row] of Object.entries(CAST)) all[name].value = values[name] ?? row.initial;
  });
}

let castAt = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let later;

/**
 * Send this page's view to the class, at most once per CAST_EVERY ms.
 *
 * @param {string | null} run
 * @param {Record<string, string>} place
 */
function cast(run, place) {
  clearTimeout(later);
  const wait = Math.max(0, castAt + CAST_EVERY - performance.now());
  later = setTimeout(() => {
    castAt = performance.now();
    if (drives.peek()) askOfClass("class_cast", { theater: run, view: place });
  }, wait);
}

/**
 * Player of a follower: it moves through existing records, which only the driver adds to.
 *
 * @type {import("./player.js").Player}
 */
const ledPlayer = {
  ...onlyLooking,
  running: () => store.pace.value !== null,
  say: () => (store.viewIndex.value < 0 && !store.numRecords.value ? t("class.begins") : null),
};
