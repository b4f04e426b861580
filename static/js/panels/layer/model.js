// Data of the layer panel: one position of the sequence on stage in the chosen layer, recomputed by the server in one
// pass without the cache.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { queryAt } from "../../core/attention_output.js";
import { asBytes, decode } from "../../core/codec.js";
import { attentionRow, vectorOf } from "../../core/sequence_view.js";
import { t } from "../../i18n/words.js";
import { askModel } from "../../net/commands.js";
import { paced } from "../../net/paced.js";
import { captureVersion, connection, ownIsShown, selected, sequenceView } from "../../state/store.js";

/** @import {LayerCapture} from "../../core/trace.js" */
/** @import {ResidualAnswer, ResidualStream} from "../../core/wire.js" */
/** @import {View} from "../../state/store.js" */

/**
 * @typedef {{key: string, now: View, place: number}} Wanted `place`: the position
 * @typedef {Wanted & {
 *   stream: ResidualStream, work: ResidualAnswer, arrays: LayerCapture,
 *   tokenIds: number[],
 * }} Found
 * @typedef {{values: Float32Array, captured: boolean}} Vector
 */

/**
 * The last answer of the server.
 * @type {import("../../../vendor/signals/signals.js").Signal<{key: string, found?: Found, problem?: string} | null>}
 */
const answer = signal(null);
/** Key of the last answer. An effect requests the selection if its key differs. */
export const answeredKey = computed(() => answer.value?.key ?? null);

/**
 * The selection to show, or the reason why nothing can be shown.
 * @type {import("../../../vendor/signals/signals.js").ReadonlySignal<{wanted?: Wanted, problem?: string}>}
 */
export const wanted = computed(() => {
  const now = sequenceView.value;
  if (connection.value !== "live" || !ownIsShown.value) return { problem: t("layer.live") };
  if (!now || now.numFilled < 1) return { problem: t("layer.empty") };
  const target = selected.value;
  const query = (target?.seq ?? now.seq.seq_id) === now.seq.seq_id ? target?.query : undefined;
  const place = query !== undefined && query < now.numFilled ? query : (now.query ?? now.numFilled - 1);
  return { wanted: { key: [now.log.id, now.seq.seq_id, now.layer, now.head, place].join("/"), now, place } };
});

/** The answer for the current selection, or the previous one while that is being computed. */
export const shown = computed(() => {
  const { wanted: selection, problem } = wanted.value;
  const last = answer.value;
  if (!selection) return { problem };
  if (!last || last.found?.now.log !== selection.now.log)
    return { problem: last?.key === selection.key ? last.problem : t("layer.waits") };
  return { found: last.found, stale: last.key !== selection.key };
});

/** Request the wanted selection after a delay. Returns a function that cancels it. */
export const requestSoon = paced(async () => {
  const { wanted: selection } = wanted.peek();
  if (selection && answer.peek()?.key !== selection.key) answer.value = await recompute(selection);
});

/** @param {Wanted} selection @returns {Promise<{key: string, found?: Found, problem?: string}>} */
async function recompute(selection) {
  const { key, now, place } = selection;
  const message = { seq_id: now.seq.seq_id, layer: now.layer, heads: [now.head], num_tokens: place + 1, residual: 1 };
  const done = await askModel("recompute", message);
  if (typeof done === "string") return { key, problem: done };
  const tokenIds = now.seq.token_ids;
  if (!done.residual || done.token_ids.some((id, i) => id !== tokenIds[i])) return { key, problem: t("layer.waits") };
  const stream = /** @type {ResidualStream} */ (decode(asBytes(done.residual.stream)));
  const arrays = /** @type {LayerCapture} */ (decode(asBytes(/** @type {Uint8Array} */ (done.arrays))));
  return { key, found: { ...selection, stream, arrays, work: done.residual, tokenIds } };
}

/** Return a vector of the stream, or null if there is none. @param {Found} found @param {string} name */
export const part = ({ stream }, name) => (name in stream.vectors ? stream.vectors[name].row() : null);

/**
 * Return query, key, value and attention weights of the chosen head at the position: the captured arrays, or recomputed
 * ones if they are missing.
 * @param {Found} found
 */
export function attentionOf({ now, place, arrays }) {
  captureVersion.value;
  const at = queryAt(now, place);
  const arrayOf = (/** @type {"q" | "k" | "v"} */ kind) => {
    const recorded = at ? vectorOf(at.view, kind, at.query) : null;
    const recomputed = () => arrays[kind].row(place, kind === "q" ? now.head : now.kvHead);
    return { values: recorded ?? recomputed(), captured: Boolean(recorded) };
  };
  const row = at && attentionRow(now.log, at.view.index, at.view.seq.seq_id, now.layer, now.head, at.query);
  const weights = new Float32Array(place + 1);
  if (row) weights.set(row.weights, row.keyStart);
  else weights.set(arrays.rows[0].weights.row(0, place));
  const sum = new Float32Array(arrays.v.shape[2]);
  for (let i = 0; i <= place; i++) {
    if (weights[i] === 0) continue;
    const value = arrays.v.row(i, now.kvHead);
    for (let d = 0; d < sum.length; d++) sum[d] += weights[i] * value[d];
  }
  const [q, k, v] = /** @type {const} */ (["q", "k", "v"]).map(arrayOf);
  return { q, k, v, weights: { values: weights, captured: Boolean(row) }, sum };
}

/**
 * Return the token that follows the position and the first layer whose logit lens ranks it first (0: the embedding; -1:
 * none). Returns null if no token follows yet.
 * @param {Found} found
 */
export function nextToken({ now, place, stream }) {
  const tokenId = now.seq.token_ids[place + 1] ?? (place === now.query ? now.output?.token_id : undefined);
  if (tokenId === undefined) return null;
  const bytes = now.seq.token_bytes[place + 1] ?? now.output?.token_bytes;
  return { tokenId, bytes, first: stream.lens.findIndex((top) => top[0]?.token_id === tokenId) };
}
