// What the page knows, as signals: the log it follows, the record it looks at, what is pointed at.

import { computed, signal } from "../../vendor/signals/signals.js";
import { chainOf, stageAt } from "../trace/stage.js";
import { settings } from "./settings.js";

/** The log that is shown; null before the first header. Its content grows: `numRecords` says how far. */
export const log = signal(null);
export const numRecords = signal(0);

/** connecting · live · lost · replay */
export const connection = signal("connecting");
/** The server's last `status` map, or null. */
export const status = signal(null);
/** Facts of `/api/model`, or null. */
export const modelFacts = signal(null);
/** Whether a command is under way. */
export const busy = signal(false);
/** Sentences to show for a while: [{id, text, tone}]. */
export const toasts = signal([]);
/** Grows when a capture arrived later than its record. */
export const captureVersion = signal(0);

/** Index of the record shown (-1: before the first). */
export const viewIndex = computed(() => {
  const pinned = settings.step.value;
  const last = numRecords.value - 1;
  return pinned === null ? last : Math.max(-1, Math.min(pinned, last));
});

/** Whether the view follows the log's tail. */
export const following = computed(() => settings.step.value === null);

export const record = computed(() => (log.value && viewIndex.value >= 0 ? log.value.records[viewIndex.value] : null));
export const state = computed(() => (log.value ? log.value.stateAt(viewIndex.value) : null));

/** The sequence on stage: the chosen one, else one the record computed, else the newest. */
export const shownSeq = computed(() => {
  if (!state.value) return null;
  const { sequences, running } = state.value;
  const chosen = settings.seq.value;
  if (chosen !== null && sequences.has(chosen)) return chosen;
  const batch = record.value?.batch ?? [];
  return batch[0]?.seq_id ?? running[0] ?? [...sequences.keys()].at(-1) ?? null;
});

const clamp = (value, count) => Math.max(0, Math.min(value ?? 0, count - 1));
export const layer = computed(() => clamp(settings.layer.value, log.value?.header.model.num_layers ?? 1));
export const head = computed(() => clamp(settings.head.value, log.value?.header.model.num_heads ?? 1));

export const stage = computed(() => {
  captureVersion.value; // a late capture changes what can be drawn
  if (!log.value || shownSeq.value === null) return null;
  return stageAt(log.value, viewIndex.value, shownSeq.value, layer.value, head.value);
});

/** What the newest capture that left something out says of it (English, from the engine), or "". */
export const omitted = computed(() => {
  captureVersion.value;
  for (let i = numRecords.value - 1, seen = 0; i >= 0 && seen < 8; i--) {
    if (!log.value?.records[i].has_capture) continue;
    seen += 1;
    const words = log.value.capture(i)?.omitted;
    if (words) return words;
  }
  return "";
});

/** What is pointed at: {position} of the shown sequence, or {block, offset}; null for nothing. */
export const hovered = signal(null);
export const selected = signal(null);
export const pointed = computed(() => hovered.value ?? selected.value);

export const chain = computed(() => {
  const target = pointed.value;
  if (!stage.value || target?.position === undefined) return null;
  return chainOf(stage.value, target.position);
});

/** Show record `index`; at or past the newest it is followed again. */
export function goTo(index) {
  if (settings.step.value === null && index >= numRecords.value - 1) return;
  settings.step.value = index >= numRecords.value - 1 ? null : Math.max(-1, index);
}

export function backToLive() {
  settings.step.value = null;
}

/** Point at the key at `position`; the same again lets go. */
export function select(target) {
  const same = JSON.stringify(selected.value) === JSON.stringify(target);
  selected.value = same ? null : target;
}

let nextToast = 0;

/** Show a sentence; it leaves by itself. */
export function toast(text, tone = "info") {
  if (!text || toasts.value.some((t) => t.text === text)) return;
  const id = nextToast++;
  toasts.value = [...toasts.value.slice(-2), { id, text, tone }];
  setTimeout(() => dismiss(id), 8000);
}

export function dismiss(id) {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}
