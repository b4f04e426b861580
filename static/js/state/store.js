// The page's state as signals: the log, the displayed record, and the selections.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { isBare } from "../core/bare.js";
import { connectedTo, provenanceOf } from "../core/provenance.js";
import { sequenceViewAt } from "../core/sequence_view.js";
import { teachingHead } from "../core/teaching.js";
import { onGpu } from "../i18n/language.js";
import { own, ownIsShown, shownRun, status } from "./run.js";
import { settings } from "./settings.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */
/** @import {TraceLog} from "../core/log.js" */
/** @import {Selection} from "../core/provenance/types.js" */
/** @import {ModelStatus} from "../core/wire.js" */

/**
 * @typedef {import("../core/wire.js").Answers["/api/model"]} Facts
 * @typedef {"info" | "error"} Tone
 * @typedef {NonNullable<ReturnType<TraceLog["stateAt"]>>} State
 * @typedef {State["sequences"] extends Map<number, infer S> ? S : never} Sequence
 * @typedef {NonNullable<ReturnType<typeof sequenceViewAt>>} View
 * @typedef {NonNullable<ReturnType<typeof provenanceOf>>} Chain
 * @typedef {Chain["links"][number]} ChainLink
 * @typedef {"connecting" | "live" | "lost" | "replay" | "gone"} Connection
 */

export { own, ownIsShown, status };

/** Shown log; null before the first header. It grows in place, so read `numRecords` to subscribe. */
export const log = computed(() => shownRun.value.log.value);
export const numRecords = computed(() => shownRun.value.numRecords.value);
/** The page's own run if it is shown and too long to load, else null. */
export const longRun = computed(() => (ownIsShown.value ? own.large.value : null));
/** Number of the shown run's records that have not arrived. */
export const behind = computed(() => shownRun.value.behind.value);
/** Current steps per second of the shown run's engine, 0 = unlimited; null while it is idle. */
export const pace = computed(() => shownRun.value.pace.value);

/** Connection state of the page's own run; set only by the session. @type {Signal<Connection>} */
export const connection = signal("connecting");
/** Whether the page shows or loads a recording. */
export const isReplay = computed(
  () => connection.value === "replay" || (connection.value === "connecting" && settings.recording.value !== null),
);
/** Whether the connection uses polling because WebSockets are blocked. */
export const isPolling = signal(false);
/** Response of `/api/model`, or null. @type {Signal<Facts | null>} */
export const modelFacts = signal(null);
/** Loading status of the server's first model; null until reported. @type {Signal<ModelStatus | null>} */
export const serverModel = signal(null);
/** Loading status of each of the server's models, by name. @type {Signal<Record<string, ModelStatus>>} */
export const models = signal({});
/** Name of the first model, the default of runs; null until reported. */
export const firstModel = computed(
  () => Object.values(models.value).find(({ place }) => place === "first")?.name ?? null,
);
/** Model that is loading, the first or the chosen one, or null. */
export const loadingModel = computed(() => {
  const awaited = [serverModel.value, models.value[settings.model.value ?? ""]];
  return awaited.find((one) => one?.state === "loading") ?? null;
});
/** Whether the server is reachable and its model is still loading. */
export const isLoading = computed(() => loadingModel.value !== null);
effect(() => {
  const machine = log.value?.header.machine ?? modelFacts.value?.machine;
  onGpu.value = (machine?.device || "cpu") !== "cpu";
});
/** Exhibits of the server's fault museum; empty until reported. */
export const exhibits = computed(() => modelFacts.value?.museum ?? []);
const numPending = signal(0);
/** Whether a command is pending. */
export const busy = computed(() => numPending.value > 0);
/**
 * Run the command `work` and return its result. `busy` is true until it ends; commands may overlap.
 * @template T
 * @param {() => Promise<T>} work
 */
export async function whileBusy(work) {
  numPending.value += 1;
  try {
    return await work();
  } finally {
    numPending.value -= 1;
  }
}
/** Messages that are displayed for some seconds. @type {Signal<{id: number, text: string, tone: Tone}[]>} */
export const toasts = signal([]);
/** Incremented when a capture arrives later than its record. */
export const captureVersion = signal(0);
/** Number of arrays being fetched. */
export const fetching = signal(0);

/** Index of the requested record (-1: before the first). */
export const viewIndex = computed(() => {
  const pinned = settings.step.value;
  const last = numRecords.value - 1;
  return pinned === null ? last : Math.max(-1, Math.min(pinned, last));
});

/** Whether the view follows the log's tail. */
export const following = computed(() => settings.step.value === null);

/** Record that the motion draws; set only by state/playhead.js. */
export const drawing = signal(-1);
/** Index of the drawn record, which the views show. It reaches `viewIndex` when a motion ends. */
export const drawnIndex = computed(() => Math.min(drawing.value, numRecords.value - 1));

export const record = computed(() => (log.value && drawnIndex.value >= 0 ? log.value.records[drawnIndex.value] : null));
export const state = computed(() => (log.value ? log.value.stateAt(drawnIndex.value) : null));

/** Sequence on stage: the chosen one, else one that the record computed, else the newest. */
export const shownSeq = computed(() => {
  if (!state.value) return null;
  const { sequences, running } = state.value;
  const chosen = settings.seq.value;
  if (chosen !== null && sequences.has(chosen)) return chosen;
  const { batch = [], ops = [] } = record.value ?? {};
  const arrived = ops.find((op) => op.type === "arrive");
  return batch[0]?.seq_id ?? arrived?.seq_id ?? running[0] ?? [...sequences.keys()].at(-1) ?? null;
});

/**
 * Record at which the sequence on stage is shown: the drawn one, or for a finished sequence the last that computed it.
 */
export const stageIndex = computed(() => {
  const [now, seq, index] = [log.value, shownSeq.value, drawnIndex.value];
  if (!now || seq === null || state.value?.sequences.get(seq)?.status !== "finished") return index;
  const last = now.lastComputed(seq, index);
  return last < 0 ? index : last;
});
/** Whether that record is earlier than the drawn one. */
export const showsEarlierRecord = computed(() => stageIndex.value !== drawnIndex.value);

/** Default layer and head, chosen once when the first arrays arrive. */
const teaching = computed(() => {
  numRecords.value;
  captureVersion.value;
  return (log.value && teachingHead(log.value)) ?? { layer: 0, head: 0 };
});

/** @type {(value: number, count: number) => number} */
const clamp = (value, count) => Math.max(0, Math.min(value, count - 1));
export const layer = computed(() =>
  clamp(settings.layer.value ?? teaching.value.layer, log.value?.header.model.num_layers ?? 1),
);
export const head = computed(() =>
  clamp(settings.head.value ?? teaching.value.head, log.value?.header.model.num_heads ?? 1),
);

export const sequenceView = computed(() => {
  captureVersion.value; // a late capture can be drawn
  if (!log.value || shownSeq.value === null) return null;
  return sequenceViewAt(log.value, stageIndex.value, shownSeq.value, layer.value, head.value);
});

/** Whether the run was recorded without arrays, so that views of them are hidden. */
export const bare = computed(() => numRecords.value > 0 && log.value !== null && isBare(log.value));

/**
 * Hovered and pinned selection of core/provenance.js, such as {position} or {block, offset}, or null.
 * @type {Signal<Selection | null>}
 */
export const hovered = signal(null);
/** @type {Signal<Selection | null>} */
export const selected = signal(null);
export const pointed = computed(() => hovered.value ?? onStage(selected.value));

/**
 * Return `target`, or null if it is a position of a sequence that is not on stage.
 * @type {(target: Selection | null) => Selection | null}
 */
const onStage = (target) =>
  target?.position !== undefined && (target.seq ?? shownSeq.value) !== shownSeq.value ? null : target;

const view = computed(() => (captureVersion.value, { seq: shownSeq.value, layer: layer.value, head: head.value }));

/**
 * Return whether `target` is a position of a finished sequence on stage. Its provenance is that of its last record, and
 * no pool slot is highlighted, as another sequence may have it now.
 * @type {(target: Selection | null) => boolean}
 */
const isPast = (target) =>
  showsEarlierRecord.value && target?.position !== undefined && (target.seq ?? shownSeq.value) === shownSeq.value;

/** @param {Selection | null} target */
const provenanceNow = (target) =>
  log.value && provenanceOf(log.value, isPast(target) ? stageIndex.value : drawnIndex.value, target, view.value);

/** Provenance of the hovered or pinned selection (one line) and of the pinned one (panel), or null. */
export const chain = computed(() => provenanceNow(pointed.value));
export const provenance = computed(() => provenanceNow(selected.value));

/** Ids connected with the hovered or pinned selection, as sets: {blocks, slots, seqs}; null without one. */
export const connected = computed(() =>
  log.value && pointed.value && !isPast(pointed.value)
    ? connectedTo(log.value, drawnIndex.value, pointed.value, view.value)
    : null,
);

/**
 * Show record `index`. At or after the newest record of a live run, the run is followed. The last record of a
 * recording is pinned like any other, so that links to it show it.
 * @param {number} index
 */
export function goTo(index) {
  const last = numRecords.peek() - 1;
  const follows = index >= last && (index === Infinity || connection.peek() !== "replay");
  batch(() => {
    settings.step.value = follows ? null : Math.max(-1, Math.min(index, last));
    settings.sub.value = null;
  });
}

export function backToLive() {
  goTo(Infinity);
}

/** Pin `target`, a selection of core/provenance.js; unpin it if it is already pinned. @param {Selection} target */
export function select(target) {
  const named =
    target.position !== undefined && target.seq === undefined
      ? { ...target, seq: shownSeq.value ?? undefined }
      : target;
  const isSame = JSON.stringify(selected.value) === JSON.stringify(named);
  selected.value = isSame ? null : named;
}

let nextToast = 0;

/** Display a message for 8 s; no-op for null. @param {string | null} text @param {Tone} [tone] */
export function toast(text, tone = "info") {
  if (!text || toasts.value.some((t) => t.text === text)) return;
  const id = nextToast++;
  toasts.value = [...toasts.value.slice(-2), { id, text, tone }];
  setTimeout(() => dismiss(id), 8000);
}

/** @param {number} id */
export function dismiss(id) {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}
