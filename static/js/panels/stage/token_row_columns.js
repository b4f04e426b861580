// Contents of the token row's columns: widths, which columns exist in a sub-step, vectors, and descriptions.

import { labelText, loneLabel } from "../../core/labels.js";
import { slotOf } from "../../core/metrics.js";
import { isFresh, isReleased, originOf, storedStates, vectorOf } from "../../core/sequence_view.js";
import { isElsewhere } from "../../core/slot_origins.js";
import { keysText } from "../../i18n/groups.js";
import { grouped, probabilityText, t } from "../../i18n/words.js";
import { labelWidth } from "../../kit/canvas.js";
import { fittedSize } from "../../kit/measure.js";
import { PHASES } from "../../state/playhead.js";
import { columns, fittedColumn, rows } from "./geometry.js";
import { lensText } from "./lens.js";

/** @import {View} from "../../state/store.js" */

/**
 * `missing` is the reason why there is no vector, or null.
 *
 * @typedef {ReturnType<typeof import("../../core/labels.js").loneLabel>} Label
 * @typedef {"k" | "v" | "q"} Kind
 * @typedef {"unwritten" | "released" | "gone" | "loading" | "uncaptured"} Missing
 * @typedef {{vector: Float32Array, source: string, fresh: boolean, missing: null}} Known
 * @typedef {{vector: null, source: null, fresh: boolean, missing: Missing}} Unknown
 * @typedef {Known | Unknown} Cell
 */

/** @type {Kind[]} */
export const KINDS = ["k", "v", "q"];
const MAX_FONT = 17; // px
const USUAL_FONT = 11.5; // px at which 90 % of the prompt's tokens fit their columns
const MIN_WIDTH = 26;
const LETTER_WIDTH = 46; // px of a column that fits most words of alphabetic scripts
const MAX_WIDTH = 84;
const MIN_SHARE = 0.8; // of the needed width, to which columns may shrink so that a line fits
const PHONE_WIDTH = 400; // px; in narrower windows columns always shrink
const MAX_COLUMNS = 4096; // for which space is reserved

/**
 * Return the rows of the token row, including a state row if the model has a state.
 * @param {View | null} now @param {number} height
 */
export const rowsOf = (now, height) => rows(height, Boolean(now?.log.header.model.state_bytes));

/** @param {Label} label */
export const shownText = (label) => (label.of ? (label.char ?? label.hex) : label.text);

/**
 * Return the font size of `text` in a column of `width`, or null if it does not fit.
 * @param {string} text @param {number} width
 */
export const fontSize = (text, width) => fittedSize(text, width - 2, MAX_FONT);

/**
 * Whether a phase is complete in the shown sub-step `sub`, which is null for the complete record.
 * @param {number | null} sub @param {import("../../state/playhead.js").Phase} phase
 */
export const done = (sub, phase) => sub === null || sub >= PHASES.indexOf(phase);

/** Position of the token sampled in the record, or null. @param {View} now */
export const sampledAt = (now) => (now.output ? now.seq.token_ids.length - 1 : null);

/**
 * Return the draft status of a position: `draft` before verification, then `accepted` or `rejected`. Returns null if
 * there is no draft.
 * @param {View} now @param {number} position @param {number | null} sub
 */
export function draftAt({ drafts }, position, sub) {
  const place = drafts ? position - drafts.start : -1;
  if (!drafts || place < 0 || place >= drafts.token_bytes.length) return null;
  if (!done(sub, "sample")) return "draft";
  return place < drafts.accepted ? "accepted" : "rejected";
}

/** Label of the draft token at a position. @param {View} now @param {number} position */
export const draftLabel = ({ drafts }, position) =>
  loneLabel(drafts?.token_bytes[position - drafts.start] ?? new Uint8Array());

/**
 * Label of a column's token: the draft token before verification and after the last token.
 * @param {View} now @param {number} position @param {number | null} sub
 */
export const labelAt = (now, position, sub) =>
  draftAt(now, position, sub) === "draft" || position >= now.labels.length
    ? draftLabel(now, position)
    : now.labels[position];

/** @type {WeakMap<object, Map<number, number>>} needed width by log and sequence */
const widthCache = new WeakMap();

/**
 * Return the width that a sequence's tokens need. It is computed from the prompt, so that it does not change as the
 * sequence grows.
 * @param {View} now
 */
function neededWidth(now) {
  const byId = widthCache.get(now.log) ?? new Map();
  widthCache.set(now.log, byId);
  const { seq_id: id, num_prompt_tokens: count } = now.seq;
  if (!byId.has(id)) {
    const texts = now.labels.slice(0, count).map(shownText);
    const widths = texts.map(labelWidth).sort((a, b) => a - b);
    const usual = ((widths[Math.floor(widths.length * 0.9)] ?? 0) * USUAL_FONT) / MAX_FONT;
    const letters = texts.some((text) => /[a-z]{2}/i.test(text)) ? LETTER_WIDTH : MIN_WIDTH;
    byId.set(id, Math.min(MAX_WIDTH, Math.max(letters, Math.ceil(usual / 8) * 8 + 4)));
  }
  return byId.get(id) ?? MIN_WIDTH;
}

/**
 * Return the column width at which `count` columns fit the window, at least `MIN_SHARE` of `needed`.
 * @param {number} needed @param {number} count @param {number} blockSize
 * @param {number} width
 */
function shrunkWidth(needed, count, blockSize, width) {
  const minimum = Math.floor(needed * MIN_SHARE);
  return width < PHONE_WIDTH ? minimum : Math.max(minimum, Math.min(needed, fittedColumn(count, blockSize, width)));
}

/**
 * Lay out the columns of the sequence on stage in a window of `width`. `withSampled` includes the token just sampled.
 * @param {View} now @param {number} width @param {boolean} withSampled
 */
export function layoutOf(now, width, withSampled) {
  const { seq } = now;
  const needed = shrunkWidth(neededWidth(now), seq.num_prompt_tokens + 1, now.blockSize, width);
  const shown = seq.token_ids.length - (sampledAt(now) !== null && !withSampled ? 1 : 0);
  return columns({
    count: Math.max(now.drafts ? now.numFilled : 0, shown),
    expected: Math.max(seq.token_ids.length, Math.min(seq.num_prompt_tokens + seq.max_tokens, MAX_COLUMNS)),
    blockSize: now.blockSize,
    width,
    minimum: needed,
    maximum: Math.max(40, Math.min(MAX_WIDTH, needed + 8)),
  });
}

/** @type {WeakMap<View, Map<number, Cell>>} by view, then `position * 3 + kind` */
const cells = new WeakMap();

/**
 * Return the vector of `position` in a row: `{vector, source, fresh, missing}`. `fresh` means computed in this record.
 * Without a vector, `missing` is `unwritten` (no K and V yet), `released` (this layer's block is freed), `gone` (the
 * query of an earlier step), `loading` or `uncaptured`.
 * @param {View} now @param {Kind} kind @param {number} position
 */
export function cellOf(now, kind, position) {
  let byKey = cells.get(now);
  if (!byKey) cells.set(now, (byKey = new Map()));
  const key = position * KINDS.length + KINDS.indexOf(kind);
  let cell = byKey.get(key);
  if (!cell) byKey.set(key, (cell = readCell(now, kind, position)));
  return cell;
}

/** @param {View} now @param {Kind} kind @param {number} position @returns {Cell} */
function readCell(now, kind, position) {
  const origin = originOf(now, position);
  const vector = vectorOf(now, kind, position);
  const fresh = origin !== null && isFresh(now, origin);
  if (origin && vector)
    return { vector, source: `${origin.record}/${origin.seq_id}/${origin.position}`, fresh, missing: null };
  /** @type {Omit<Unknown, "missing">} */
  const absent = { vector: null, source: null, fresh };
  if (!origin) return { ...absent, missing: isReleased(now, position) ? "released" : "unwritten" };
  if (kind === "q" && !fresh) return { ...absent, missing: "gone" };
  const isLoading = !isElsewhere(origin) && now.log.captureMissing(origin.record, now.layer);
  return { ...absent, missing: isLoading ? "loading" : "uncaptured" };
}

/**
 * Return the vector in sub-step `sub`. Vectors that are computed in a later sub-step are unwritten.
 * @param {View} now @param {Kind} kind @param {number} position
 * @param {number | null} sub
 * @returns {Cell}
 */
export function shownCell(now, kind, position, sub) {
  const cell = cellOf(now, kind, position);
  return cell.fresh && !done(sub, "qkv") ? { vector: null, source: null, fresh: true, missing: "unwritten" } : cell;
}

/**
 * Return the weight that this record's query gives to the key at `position`, or null.
 * @param {View} now @param {number} position @param {number | null} sub
 */
function weightAt(now, position, sub) {
  const row = now.attention;
  if (!row || !done(sub, "attend") || position < row.keyStart) return null;
  return row.weights[position - row.keyStart] ?? null;
}

/**
 * Return block and slot of a position, or null if its K and V are not in the pool.
 * @param {View} now @param {number} position @param {number | null} sub
 */
export function placeOf(now, position, sub) {
  const isNew = now.entry && position >= now.entry.start;
  if (position >= now.numFilled || (isNew && !done(sub, "write"))) return null;
  return slotOf(now.table, now.blockSize, position);
}

/**
 * Reason why the layer's block group freed a block. Logs without block groups do not state the window.
 * @param {View["log"]["groups"][number]} group
 */
const releasedText = (group) =>
  group.window === null ? t("stage.column.released") : t("group.released.column", { keys: keysText(group) });

/** Describe a column, one fact per part. @param {View} now @param {number} position @param {number | null} sub */
export function describe(now, position, sub) {
  const label = labelAt(now, position, sub);
  const parts = [t("stage.column", { token: labelText(label), position })];
  const draft = draftAt(now, position, sub);
  if (draft) parts.push(t(`stage.column.${draft}`, { token: labelText(draftLabel(now, position)) }));
  if (label.of) parts.push(label.char ? t("stage.fragment", label) : t("stage.fragment_open", label));
  const weight = weightAt(now, position, sub);
  if (weight !== null) parts.push(t("stage.column.weight", { weight: probabilityText(weight) }));
  const place = placeOf(now, position, sub);
  if (place) parts.push(t("stage.column.slot", { block: place.block, slot: place.offset }));
  else if (now.entry && position >= now.entry.start && position < now.numFilled && done(sub, "qkv"))
    parts.push(t("stage.column.computed"));
  else if (isReleased(now, position)) parts.push(releasedText(now.log.groups[now.group]));
  else parts.push(t(now.released ? "stage.column.released" : "stage.column.unwritten"));
  const stored = storedStates(now).find((one) => one.position === position);
  if (stored)
    parts.push(
      t(stored.isNewest ? "stage.column.state" : "stage.column.kept_state", {
        block: stored.block,
        bytes: grouped(now.log.header.model.state_bytes ?? 0),
      }),
    );
  const lens = lensText(now, position);
  if (lens) parts.push(lens);
  if (place && now.entry?.phase === "prefill" && position < now.seq.num_cached_tokens)
    parts.push(t("stage.column.hit"));
  if (cellOf(now, "k", position).missing === "uncaptured")
    parts.push(t(isElsewhere(originOf(now, position)) ? "stage.column.elsewhere" : "stage.column.uncaptured"));
  return parts;
}
