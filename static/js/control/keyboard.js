// Keys of the page: one table for the handler, the help and the tests. Text fields and lists with arrow keys handle
// their own keys. F5 and the browser's shortcuts are not touched.

import { signal } from "../../vendor/signals/signals.js";
import { settings } from "../state/settings.js";
import * as store from "../state/store.js";
import { startOpening } from "./opening.js";
import * as playback from "./playback.js";
import { player } from "./player.js";
import * as present from "./present.js";

export const helpOpen = signal(false);
/** Whether the jump list is open. */
export const jumpOpen = signal(false);
/** Whether the page is blacked out, by a presenter's remote control. */
export const blackout = signal(false);

const digits = Array.from({ length: 10 }, (_, n) => String(n));

/**
 * `keys`: values of `keyOf`; `shown`: keycaps in the help; `text`: key of its text; `moves`: whether some elements
 * handle the keys themselves.
 *
 * @typedef {{keys: string[], shown: string[], text: string, moves?: boolean, run: (key: string) => unknown}} Row
 */

/** @type {Row[]} */
export const KEYS = [
  { keys: ["ArrowLeft"], shown: ["←"], text: "key.back", moves: true, run: () => playback.stepRecord(-1) },
  { keys: ["ArrowRight"], shown: ["→"], text: "key.forward", moves: true, run: () => playback.stepRecord(1) },
  {
    keys: [",", "Shift+ArrowLeft"],
    shown: [",", "⇧ ←"],
    text: "key.sub_back",
    moves: true,
    run: () => playback.stepSub(-1),
  },
  {
    keys: [".", "Shift+ArrowRight"],
    shown: [".", "⇧ →"],
    text: "key.sub_forward",
    moves: true,
    run: () => playback.stepSub(1),
  },
  { keys: [" "], shown: ["Space"], text: "key.main", run: () => playback.doMain() },
  { keys: ["j"], shown: ["J"], text: "key.play_back", run: () => playback.play(-1) },
  { keys: ["k"], shown: ["K"], text: "key.stop", run: () => playback.stop() },
  { keys: ["l"], shown: ["L"], text: "key.play", run: () => playback.play(1) },
  { keys: ["n"], shown: ["N"], text: "key.next_event", run: () => playback.jumpToEvent(1) },
  { keys: ["Shift+n"], shown: ["⇧ N"], text: "key.previous_event", run: () => playback.jumpToEvent(-1) },
  { keys: ["g"], shown: ["G"], text: "key.jump", run: () => (jumpOpen.value = !jumpOpen.value) },
  { keys: digits, shown: ["0", "…", "9"], text: "key.tenths", run: (key) => playback.jumpToTenth(Number(key)) },
  { keys: ["Home"], shown: ["Home"], text: "key.home", moves: true, run: () => playback.jumpTo(-1) },
  { keys: ["End"], shown: ["End"], text: "key.end", moves: true, run: () => playback.backToLive() },
  { keys: ["PageDown"], shown: ["PgDn"], text: "key.next", run: () => present.next() },
  { keys: ["PageUp"], shown: ["PgUp"], text: "key.previous", run: () => playback.previous() },
  { keys: ["Shift+PageDown"], shown: ["⇧ PgDn"], text: "key.next_scene", run: () => present.toScene(1) },
  { keys: ["Shift+PageUp"], shown: ["⇧ PgUp"], text: "key.previous_scene", run: () => present.toScene(-1) },
  { keys: ["v"], shown: ["V"], text: "key.room", run: () => present.toggle() },
  { keys: ["o"], shown: ["O"], text: "key.opening", run: () => startOpening() },
  { keys: ["e"], shown: ["E"], text: "key.expert", run: toggleRegister },
  { keys: ["b"], shown: ["B"], text: "key.black", run: () => (blackout.value = !blackout.value) },
  { keys: ["s"], shown: ["S"], text: "key.step", run: () => player.peek().step() },
  { keys: ["p"], shown: ["P"], text: "key.prefill", run: () => player.peek().prefill?.() },
  { keys: ["r"], shown: ["R"], text: "key.reset", run: () => player.peek().reset() },
  { keys: ["Escape"], shown: ["Esc"], text: "key.escape", run: dismiss },
  { keys: ["?"], shown: ["?"], text: "key.help", run: () => (helpOpen.value = !helpOpen.value) },
];

/** Switch between plain and expert sentences. */
function toggleRegister() {
  settings.telling.value = settings.telling.value === "plain" ? "expert" : "plain";
}

/** Close one thing: the blackout, else the jump list, the help, the pinned selection or the present view. */
function dismiss() {
  for (const open of [blackout, jumpOpen, helpOpen]) if (open.value) return void (open.value = false);
  if (store.selected.value) store.selected.value = null;
  else if (present.isPresenting()) present.toggle();
}

/**
 * Return an event's key as in the table: letters in lower case, Shift only if it does not change the
 * character.
 * @param {{key: string, shiftKey: boolean}} event
 */
export function keyOf({ key, shiftKey }) {
  const letter = /^[a-z]$/i.test(key);
  const name = letter ? key.toLowerCase() : key;
  return shiftKey && (letter || key.startsWith("Arrow") || key.startsWith("Page")) ? `Shift+${name}` : name;
}

/** Return the element of an event. @param {Event} event */
const elementOf = (event) => /** @type {Element | null} */ (event.target);

const ROWS = new Map(KEYS.flatMap((row) => row.keys.map((key) => [key, row])));

/**
 * Return the row for an event, or null if its element handles the key.
 * @param {KeyboardEvent} event
 * @returns {Row | null}
 */
export function rowFor(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return null;
  const key = keyOf(event);
  const row = ROWS.get(key) ?? null;
  /** @param {string} selector */
  const at = (selector) => elementOf(event)?.closest(selector);
  if (key !== "Escape" && at("input:not([type=range]), textarea, select, [contenteditable]")) return null;
  if (key === " " && at("button, summary, a, [role=option]")) return null;
  if (row?.moves && at("[data-arrows]")) return null;
  if (key.startsWith("Page") && at(".help")) return null; // scrolls the help
  return row;
}

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    const row = rowFor(event);
    if (!row) return;
    if (event.key === "Escape")
      /** @type {HTMLElement | null | undefined} */ (elementOf(event)?.closest("input, textarea, select"))?.blur();
    else event.preventDefault();
    row.run(keyOf(event));
  });
}
