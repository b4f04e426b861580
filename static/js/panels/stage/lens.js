// Logit lens on the stage: the most probable next tokens after the chosen layer at each position, recomputed by the
// server without the cache. Positions do not change as the sequence grows, so each is requested once per layer.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { asBytes, decode } from "../../core/codec.js";
import { labelText, loneLabel } from "../../core/labels.js";
import { probabilityText, t } from "../../i18n/words.js";
import { askModel } from "../../net/commands.js";
import { paced } from "../../net/paced.js";
import { settings } from "../../state/settings.js";
import { bare, connection, log, ownIsShown, sequenceView } from "../../state/store.js";

/** @import {Candidate} from "../../core/trace.js" */
/** @import {ResidualStream} from "../../core/wire.js" */
/** @import {View} from "../../state/store.js" */

const MAX_LENS = 256; // positions per request, as the server allows

export const lensIsOn = signal(false);
/** Whether the server can recompute the run on stage. Only the workspace has the lens; lessons ask about tokens. */
export const lensIsPossible = computed(
  () =>
    settings.viewMode.value === "workspace" &&
    connection.value === "live" &&
    ownIsShown.value &&
    !bare.value &&
    log.value !== null &&
    !log.value.header.model.state_bytes,
);

/**
 * The answers for one sequence and layer, by position.
 * @type {import("../../../vendor/signals/signals.js").Signal<{
 *   key: string, tops: Map<number, Candidate[]>, problem: string,
 * }>}
 */
const answers = signal({ key: "", tops: new Map(), problem: "" });
/** First and last (exclusive) position whose lens is shown. @type {[number, number]} */
let requestedSpan = [0, 0];

/** @param {View} now */
const keyOf = (now) => [now.log.id, now.seq.seq_id, now.layer].join("/");

/**
 * Return the most probable next tokens after the chosen layer at `position`, the most probable first, or null while
 * unknown.
 * @param {View} now @param {number} position
 */
export const lensAt = (now, position) =>
  lensIsOn.value && answers.value.key === keyOf(now) ? (answers.value.tops.get(position) ?? null) : null;

/** Reason why the lens of a view is unknown, or "". @param {View} now */
export const lensProblem = (now) => (answers.value.key === keyOf(now) ? answers.value.problem : "");

/** Return the lens at `position` as a sentence, or null while unknown. @param {View} now @param {number} position */
export function lensText(now, position) {
  const top = lensAt(now, position);
  if (!top) return null;
  const each = top.map(
    ({ token_bytes, logprob }) => `${labelText(loneLabel(token_bytes))} ${probabilityText(Math.exp(logprob))}`,
  );
  return t("stage.lens.column", { layer: now.layer, tokens: each.join(t("join.clauses")) });
}

/**
 * Whether the most probable token is the token that follows, or null if none follows yet.
 * @param {View} now @param {number} position @param {Candidate[]} top
 */
export function lensIsRight(now, position, top) {
  const next = now.seq.token_ids[position + 1];
  return next === undefined ? null : top[0]?.token_id === next;
}

const requestSoon = paced(request);

/**
 * Request the unknown positions of a span after a delay. Returns a function that cancels it.
 * @param {View | null} now @param {[number, number]} span
 */
export function fetchLens(now, [first, last]) {
  requestedSpan = [first, last];
  if (!now || !lensIsOn.peek() || !missingSpan(now)) return undefined;
  return requestSoon();
}

/** Return the first and last (exclusive) unknown positions of the shown span, or null. @param {View} now */
function missingSpan(now) {
  const { key, tops, problem } = answers.peek();
  if (key === keyOf(now) && problem) return null;
  const isKnown = (/** @type {number} */ position) => key === keyOf(now) && tops.has(position);
  let [first, last] = [requestedSpan[0], Math.min(requestedSpan[1], now.numFilled)];
  while (first < last && isKnown(first)) first++;
  while (first < last && isKnown(last - 1)) last--;
  return first < last ? { first: Math.max(first, last - MAX_LENS), last } : null;
}

async function request() {
  const now = sequenceView.peek();
  const span = now && lensIsOn.peek() ? missingSpan(now) : null;
  if (!now || !span) return;
  const { seq, layer, head } = now;
  const done = await askModel("recompute", {
    seq_id: seq.seq_id,
    layer,
    heads: [head],
    num_tokens: span.last,
    residual: span.last - span.first,
  });
  const key = keyOf(now);
  const tops = new Map(answers.peek().key === key ? answers.peek().tops : []);
  if (typeof done === "string" || !done.residual) {
    answers.value = { key, tops, problem: typeof done === "string" ? done : "" };
    return;
  }
  if (done.token_ids.some((id, i) => id !== now.seq.token_ids[i])) return;
  const stream = /** @type {ResidualStream} */ (decode(asBytes(done.residual.stream)));
  stream.layer_lens.forEach((top, i) => tops.set(span.last - stream.layer_lens.length + i, top));
  const problem = stream.layer_lens.length ? "" : t("stage.lens.missing");
  answers.value = { key, tops, problem };
}
