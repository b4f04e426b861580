// What the page knows, as signals: the log it follows, the record it looks at, what is pointed at.

import { batch, computed, effect, signal } from "../../vendor/signals/signals.js";
import { isBare } from "../core/bare.js";
import { connectedTo, provenanceOf } from "../core/provenance.js";
import { sequenceViewAt } from "../core/sequence_view.js";
import { teachingHead } from "../core/teaching.js";
import { onGpu } from "../tell/language.js";
import { onShow, own, ownIsShown, status } from "./run.js";
import { settings } from "./settings.js";

/**
 * @typedef {import("../core/log.js").TraceLog} TraceLog
 * @typedef {import("../core/wire.js").Answers["/api/model"]} Facts
 * @typedef {"info" | "error"} Tone
 * @typedef {NonNullable<ReturnType<TraceLog["stateAt"]>>} State
 * @typedef {State["sequences"] extends Map<number, infer S> ? S : never} Sequence
 * @typedef {NonNullable<ReturnType<typeof sequenceViewAt>>} View
 * @typedef {NonNullable<ReturnType<typeof provenanceOf>>} Chain
 * @typedef {Chain["links"][number]} ChainLink
 * @typedef {"connecting" | "live" | "lost" | "replay" | "gone"} Connection
 */

/**
 * What is pointed at or held: core/provenance.js says which fields go together.
 *
 * @typedef {import("../core/provenance/types.js").Selection} Selection
 */

export { own, ownIsShown, status };

/** The log that is shown; null before the first header. Its content grows: `numRecords` says how far. */
export const log = computed(() => onShow.value.log.value);
export const numRecords = computed(() => onShow.value.numRecords.value);
/** The page's own run, where it is shown and too long to be read; else null. */
export const longRun = computed(() => (ownIsShown.value ? own.large.value : null));
/** Records of it that have not arrived yet. */
export const behind = computed(() => onShow.value.behind.value);
/** Steps a second that its engine takes now, 0 = as fast as it goes; null while it takes none. */
export const pace = computed(() => onShow.value.pace.value);

/**
 * How the page stands to its own run; only the session sets it.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Connection>}
 */
export const connection = signal("connecting");
/** Whether the page shows a recording, or is about to. */
export const isReplay = computed(
  () => connection.value === "replay" || (connection.value === "connecting" && settings.recording.value !== null),
);
/** Whether the server is reached by polling, since no WebSocket gets through. */
export const isPolling = signal(false);
/**
 * Facts of `/api/model`, or null.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Facts | null>}
 */
export const modelFacts = signal(null);
/**
 * How far the server's first model is, as it says; null while it has not said.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<import("../core/wire.js").ModelStatus | null>}
 */
export const serverModel = signal(null);
/**
 * How far each of the server's models is, by name.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Record<string, import("../core/wire.js").ModelStatus>>}
 */
export const models = signal({});
/** The name of the first, on which runs are that name none; null while the server has not said. */
export const firstModel = computed(
  () => Object.values(models.value).find(({ place }) => place === "first")?.name ?? null,
);
/** The model that the run waits for: the first, or the one that was chosen; null: none is on its way. */
export const onItsWay = computed(() => {
  const awaited = [serverModel.value, models.value[settings.model.value ?? ""]];
  return awaited.find((one) => one?.state === "loading") ?? null;
});
/** Whether the server is there and its model is on its way. */
export const isLoading = computed(() => onItsWay.value !== null);
effect(() => {
  const machine = log.value?.header.machine ?? modelFacts.value?.machine;
  onGpu.value = (machine?.device || "cpu") !== "cpu";
});
/** The exhibits of the fault museum that the server has; empty while it has not said. */
export const exhibits = computed(() => modelFacts.value?.museum ?? []);
const underWay = signal(0);
/** Whether a command is under way. */
export const busy = computed(() => underWay.value > 0);
/**
 * Do `work`, a command of which there may be several at once; its result.
 *
 * @template T
 * @param {() => Promise<T>} work
 */
export async function whileBusy(work) {
  underWay.value += 1;
  try {
    return await work();
  } finally {
    underWay.value -= 1;
  }
}
/**
 * Sentences to show for a while.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<{id: number, text: string, tone: Tone}[]>}
 */
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
  const { batch = [], ops = [] } = record.value ?? {};
  const came = ops.find((op) => op.type === "arrive"); // what is moved is shown
  return batch[0]?.seq_id ?? came?.seq_id ?? running[0] ?? [...sequences.keys()].at(-1) ?? null;
});

/**
 * The record as at which the sequence on stage is shown: the one that is drawn; of a sequence that has finished before,
 * the last one that computed it.
 */
export const stageIndex = computed(() => {
  const [now, seq, index] = [log.value, shownSeq.value, drawnIndex.value];
  if (!now || seq === null || state.value?.sequences.get(seq)?.status !== "finished") return index;
  const last = now.lastComputed(seq, index);
  return last < 0 ? index : last;
});
/** Whether that is an earlier record than the one that is drawn. */
export const looksBack = computed(() => stageIndex.value !== drawnIndex.value);

/** The layer and head that the run is best explained with: decided once, when the first arrays are here. */
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
  captureVersion.value; // a late capture changes what can be drawn
  if (!log.value || shownSeq.value === null) return null;
  return sequenceViewAt(log.value, stageIndex.value, shownSeq.value, layer.value, head.value);
});

/** Whether the run was recorded without arrays: what would show them gives its room to what there is. */
export const bare = computed(() => numRecords.value > 0 && log.value !== null && isBare(log.value));

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

/**
 * What is pointed at and what is held: a selection of core/provenance.js, such as {position} or {block, offset}; null
 * for nothing.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<Selection | null>}
 */
export const hovered = signal(null);
/** @type {import("../../vendor/signals/signals.js").Signal<Selection | null>} */
export const selected = signal(null);
export const pointed = computed(() => hovered.value ?? onStage(selected.value));

/**
 * A position of a sequence that is not on stage says nothing about the columns there.
 *
 * @type {(target: Selection | null) => Selection | null}
 */
const onStage = (target) =>
  target?.position !== undefined && (target.seq ?? shownSeq.value) !== shownSeq.value ? null : target;

const view = computed(() => (captureVersion.value, { seq: shownSeq.value, layer: layer.value, head: head.value }));

/**
 * Whether `target` is a position of the sequence on stage as it was: what it was then is told, and no slot of the pool
 * is framed, because another sequence may have it now.
 *
 * @type {(target: Selection | null) => boolean}
 */
const isPast = (target) =>
  looksBack.value && target?.position !== undefined && (target.seq ?? shownSeq.value) === shownSeq.value;

/** @param {Selection | null} target */
const provenanceNow = (target) =>
  log.value && provenanceOf(log.value, isPast(target) ? stageIndex.value : drawnIndex.value, target, view.value);

/** The provenance of what is pointed at (the one line) and of what is held (the panel); null for nothing. */
export const chain = computed(() => provenanceNow(pointed.value));
export const provenance = computed(() => provenanceNow(selected.value));

/** What hangs together with what is pointed at: {blocks, slots, seqs}, sets of ids; null for nothing. */
export const connected = computed(() =>
  log.value && pointed.value && !isPast(pointed.value)
    ? connectedTo(log.value, drawnIndex.value, pointed.value, view.value)
    : null,
);

/**
 * Show record `index`. At or past the newest of a live run it is followed again; the last one of a recording is a place
 * as any other is, so that a link to it leads there.
 *
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

/**
 * Hold `target`, a selection of core/provenance.js; the same again lets go.
 *
 * @param {Selection} target
 */
export function select(target) {
  const named =
    target.position !== undefined && target.seq === undefined
      ? { ...target, seq: shownSeq.value ?? undefined }
      : target;
  const same = JSON.stringify(selected.value) === JSON.stringify(named);
  selected.value = same ? null : named;
}

let nextToast = 0;

/**
 * Show a sentence; it leaves by itself.
 *
 * @param {string | null} text nothing is shown without one
 * @param {Tone} [tone]
 */
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
