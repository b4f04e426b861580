// What the page knows, as signals: the log it follows, the record it looks at, what is pointed at.

import { batch, computed, signal } from "../../vendor/signals/signals.js";
import { tellingHeads } from "../core/heads.js";
import { connectedTo, provenanceOf } from "../core/provenance.js";
import { sequenceViewAt } from "../core/sequence_view.js";
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
/** The exhibits of the fault museum that the server has; empty while it has not said. */
export const exhibits = computed(() => modelFacts.value?.museum ?? []);
const underWay = signal(0);
/** Whether a command is under way. */
export const busy = computed(() => underWay.value > 0);
/** Do `work`, a command of which there may be several at once; its result. */
export async function whileBusy(work) {
  underWay.value += 1;
  try {
    return await work();
  } finally {
    underWay.value -= 1;
  }
}
/** Sentences to show for a while: [{id, text, tone}]. */
export const toasts = signal([]);
/** Grows when a capture arrived later than its record. */
export const captureVersion = signal(0);
/** How many arrays are on their way. */
export const fetching = signal(0);

/** Index of the record asked for (-1: before the first). */
export const viewIndex = computed(() => {
  const pinned = settings.step.value;
  const last = numRecords.value - 1;
  return pinned === null ? last : Math.max(-1, Math.min(pinned, last));
});

/** Whether the view follows the log's tail. */
export const following = computed(() => settings.step.value === null);

/** The record that the motion draws now: only state/moment.js sets it. */
export const drawing = signal(-1);
/** Index of the record being drawn. What is shown follows it; it reaches `viewIndex` when a motion ends. */
export const drawnIndex = computed(() => Math.min(drawing.value, numRecords.value - 1));

export const record = computed(() => (log.value && drawnIndex.value >= 0 ? log.value.records[drawnIndex.value] : null));
export const state = computed(() => (log.value ? log.value.stateAt(drawnIndex.value) : null));

/** The sequence on stage: the chosen one, else one the record computed, else the newest. */
export const shownSeq = computed(() => {
  if (!state.value) return null;
  const { sequences, running } = state.value;
  const chosen = settings.seq.value;
  if (chosen !== null && sequences.has(chosen)) return chosen;
  const batch = record.value?.batch ?? [];
  return batch[0]?.seq_id ?? running[0] ?? [...sequences.keys()].at(-1) ?? null;
});

/** The layer and head that the shown model is best explained with, where they were measured; else the first. */
const teaching = computed(() => tellingHeads(log.value?.header.model)[0] ?? { layer: 0, head: 0 });

const clamp = (value, count) => Math.max(0, Math.min(value, count - 1));
export const layer = computed(() =>
  clamp(settings.layer.value ?? teaching.value.layer, log.value?.header.model.num_layers ?? 1),
);
export const head = computed(() =>
  clamp(settings.head.value ?? teaching.value.head, log.value?.header.model.num_heads ?? 1),
);

export const sequenceView = computed(() => {
  captureVersion.value; // a late capture changes what can be drawn
  if (!log.value || shownSeq.value === null) return null;
  return sequenceViewAt(log.value, drawnIndex.value, shownSeq.value, layer.value, head.value);
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

/** What is pointed at and what is held: a selection of core/provenance.js, such as {position} or {block, offset}; null for nothing. */
export const hovered = signal(null);
export const selected = signal(null);
export const pointed = computed(() => hovered.value ?? onStage(selected.value));

/** A position of a sequence that is not on stage says nothing about the columns there. */
const onStage = (target) =>
  target?.position !== undefined && (target.seq ?? shownSeq.value) !== shownSeq.value ? null : target;

const view = computed(() => (captureVersion.value, { seq: shownSeq.value, layer: layer.value, head: head.value }));

/** The provenance of what is pointed at (the one line) and of what is held (the panel); null for nothing. */
export const chain = computed(() => log.value && provenanceOf(log.value, drawnIndex.value, pointed.value, view.value));
export const provenance = computed(
  () => log.value && provenanceOf(log.value, drawnIndex.value, selected.value, view.value),
);

/** What hangs together with what is pointed at: {blocks, slots, seqs}, sets of ids; null for nothing. */
export const connected = computed(() =>
  log.value && pointed.value ? connectedTo(log.value, drawnIndex.value, pointed.value, view.value) : null,
);

/** Show record `index`; at or past the newest it is followed again. */
export function goTo(index) {
  batch(() => {
    settings.step.value = index >= numRecords.peek() - 1 ? null : Math.max(-1, index);
    settings.sub.value = null;
  });
}

export function backToLive() {
  goTo(Infinity);
}

/** Hold `target`, a selection of core/provenance.js; the same again lets go. */
export function select(target) {
  const named =
    target?.position !== undefined && target.seq === undefined ? { ...target, seq: shownSeq.value } : target;
  const same = JSON.stringify(selected.value) === JSON.stringify(named);
  selected.value = same ? null : named;
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
