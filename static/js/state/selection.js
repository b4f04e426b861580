// History of pinned selections, and their text form in links.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { settings } from "./settings.js";
import * as store from "./store.js";

/** @import {Selection} from "../core/provenance/types.js" */

/** @typedef {{target: Selection, step: number | null}} Entry */

const MAX_ENTRIES = 32;
/** @type {Record<string, Exclude<keyof Selection, "figure">>} */
const LETTERS = { q: "query", p: "position", s: "seq", b: "block", o: "offset", r: "record", i: "op" };

/**
 * History of selections; `step`: displayed record (null: the newest).
 * @type {import("../../vendor/signals/signals.js").Signal<{entries: Entry[], at: number}>}
 */
const history = signal({ entries: [], at: -1 });

export const canGoBack = computed(() => history.value.at > 0);
export const canGoForward = computed(() => history.value.at < history.value.entries.length - 1);

/**
 * Follow a link of the chain to another selection, another record, or both.
 * @param {{go?: number, select?: Selection}} link
 */
export function follow({ go, select }) {
  if (go === undefined && !select) return;
  batch(() => {
    const target = select ?? store.selected.peek();
    if (target) leave();
    if (go !== undefined) store.goTo(go);
    if (!target) return;
    push(target);
    store.selected.value = target;
  });
}

export const goBack = () => move(-1);
export const goForward = () => move(1);

/** @param {1 | -1} by */
function move(by) {
  const { entries, at } = history.value;
  const entry = entries[at + by];
  if (!entry) return;
  leave();
  batch(() => {
    history.value = { entries: history.value.entries, at: at + by };
    store.goTo(entry.step ?? Infinity);
    store.selected.value = entry.target;
  });
}

/** Store the displayed record in the current entry, to return to it. */
function leave() {
  const { entries, at } = history.peek();
  if (at < 0) return;
  history.value = { entries: entries.with(at, { ...entries[at], step: settings.step.peek() }), at };
}

/** @param {Selection} target */
function push(target) {
  const { entries, at } = history.peek();
  const earlier = entries.slice(Math.max(0, at + 2 - MAX_ENTRIES), at + 1);
  history.value = { entries: [...earlier, { target, step: settings.step.peek() }], at: earlier.length };
}

/** @type {(a: unknown, b: unknown) => boolean} */
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Synchronize the selection with history and link; the link's is applied when its record is loaded. */
export function followSelection() {
  let fromLink = readSelection(settings.select.peek());
  effect(() => {
    store.log.value; // the history of another run does not apply
    history.value = { entries: [], at: -1 };
  });
  effect(() => {
    const target = store.selected.value;
    const { entries, at } = history.peek();
    if (target && !same(entries[at]?.target, target)) {
      leave();
      push(target);
    }
    if (!fromLink) settings.select.value = writeSelection(target);
  });
  effect(() => {
    const written = settings.select.value; // also changed by the browser's Back and Forward
    if (!fromLink && written !== writeSelection(store.selected.peek())) store.selected.value = readSelection(written);
  });
  effect(() => {
    if (!fromLink || store.drawnIndex.value < 0 || store.viewIndex.value < (settings.step.value ?? 0)) return;
    const target = fromLink;
    fromLink = null;
    store.selected.value = target;
  });
}

/**
 * Encode a selection as text: `q20p9s0`, `b5o1`, `s0`, `r12i3`, `f-used`; null for nothing.
 * @param {Selection | null} target
 */
export function writeSelection(target) {
  if (!target) return null;
  if (target.figure) return `f-${target.figure}`;
  return (
    Object.entries(LETTERS)
      .map(([letter, name]) => (target[name] === undefined ? "" : `${letter}${target[name]}`))
      .join("") || null
  );
}

/** Parse a selection from `text`; null if it is invalid. @param {string | null} text @returns {Selection | null} */
export function readSelection(text) {
  const figure = /^f-([a-z]+)$/.exec(text ?? "");
  if (figure) return { figure: /** @type {Selection["figure"]} an unknown figure has no provenance */ (figure[1]) };
  if (!text || !/^([qpsbori]\d{1,9})+$/.test(text)) return null;
  return Object.fromEntries(
    [...text.matchAll(/([a-z])(\d+)/g)].map(([, letter, digits]) => [LETTERS[letter], Number(digits)]),
  );
}
