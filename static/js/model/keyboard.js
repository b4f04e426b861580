// The keys of the page. Text fields and lists that use arrows themselves keep them.

import * as actions from "./actions.js";
import * as store from "./store.js";
import { signal } from "../../vendor/signals/signals.js";

export const helpOpen = signal(false);

const KEYS = {
  ArrowLeft: () => store.goTo(store.viewIndex.value - 1),
  ArrowRight: () => store.goTo(store.viewIndex.value + 1),
  Home: () => store.goTo(-1),
  End: () => store.backToLive(),
  " ": () => actions.runOrPause(),
  s: () => actions.step(),
  p: () => actions.prefill(),
  r: () => actions.reset(),
  "?": () => (helpOpen.value = !helpOpen.value),
  Escape: () => {
    if (helpOpen.value) helpOpen.value = false;
    else store.selected.value = null;
  },
};

const OWN_ARROWS = new Set(["ArrowLeft", "ArrowRight", "Home", "End"]);

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target;
    const writes = target.closest("input:not([type=range]), textarea, select, [contenteditable]");
    if (writes && event.key !== "Escape") return;
    if (event.key === " " && target.closest("button, summary, a")) return;
    if (OWN_ARROWS.has(event.key) && target.closest("[data-arrows]")) return;
    const action = KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    if (writes) target.blur();
    action();
  });
}
