// Softmax of the current query with its actual numbers: scores computed here from the captured q and k, beside the
// weights that the engine captured.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { attentionTerms, softmaxOf, visibleKeys } from "../../core/attention.js";
import { notForgotten } from "../../core/forgetting.js";
import { labelText } from "../../core/labels.js";
import { originOf, vectorOf } from "../../core/sequence_view.js";
import { grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { difference } from "../../kit/layer_bars.js";
import { useBox } from "../../kit/measure.js";
import { hideTip, tips } from "../../kit/tooltip.js";
import { requestLayer } from "../../net/commands.js";
import { phase } from "../../state/stage_playhead.js";
import { hovered, select, sequenceView } from "../../state/store.js";
import { deltaWhy, plain, scoreFormula, share } from "./softmax_words.js";

/** @import {Children} from "../../kit/html.js" */
/** @import {View} from "../../state/store.js" */

/**
 * @typedef {Record<"score" | "exp" | "weight" | "captured" | "delta", unknown>} Cells of a row
 * @typedef {NonNullable<ReturnType<typeof attentionTerms>>} Terms
 * @typedef {{
 *   now: View & {query: number}, positions: number[], terms: Terms, soft: ReturnType<typeof softmaxOf>,
 *   recorded: (number | null)[], largest: number | null,
 * }} Shown
 */

const READ_MS = 10; // time slice for reading keys before yielding to the page
const ROW = 19; // px
const SMALL_ROW = 17; // px, in narrow layouts
const FULL_FROM = 330; // minimum px of width for a column per step of the softmax

const reading = signal(0); // increments while keys are still being read
/** @type {Map<string, Float32Array>} cached keys; a computed key never changes */
const vectors = new Map();
const MAX_VECTORS = 1 << 15;

const attended = computed(() => phase("attend") > 0);

/**
 * Return the keys at `positions`, with `undefined` for keys that are not loaded. Returns null while some are still
 * being read.
 * @param {View} now @param {number[]} positions
 */
function keysOf(now, positions) {
  const until = performance.now() + READ_MS;
  /** @type {(Float32Array | undefined)[]} */
  const found = [];
  for (const position of positions) {
    const origin = originOf(now, position);
    const from = origin && `${origin.record}/${origin.seq_id}/${origin.position}`;
    const key = `${now.log.id}/${from}/${now.layer}/${now.kvHead}`;
    let vector = vectors.get(key);
    if (!vector) {
      if (performance.now() > until) {
        setTimeout(() => (reading.value += 1));
        return null;
      }
      vector = vectorOf(now, "k", position) ?? undefined;
      if (origin && vector) vectors.set(key, vector);
      else if (origin) requestLayer(origin.record, now.layer);
      if (vectors.size > MAX_VECTORS) vectors.delete(vectors.keys().next().value ?? "");
    }
    found.push(vector);
  }
  return found;
}

/**
 * The softmax with the captured weights (`recorded`) and the largest difference, or a message if there is none.
 * @type {import("../../../vendor/signals/signals.js").ReadonlySignal<{problem?: string, found?: Shown}>}
 */
const shown = computed(() => {
  reading.value;
  const now = sequenceView.value;
  if (!now?.entry || now.query === null || !attended.value) return { problem: t("softmax.empty") };
  const { model } = now.log.header;
  const terms = attentionTerms(model, now.layer, now.head);
  if (!terms) return { problem: t("softmax.unstated") };
  const causal = visibleKeys(now.log.header, now.layer, now.query);
  const positions = notForgotten(now.seq, now.layer, now.kvHead, now.query, causal);
  const query = vectorOf(now, "q", now.query);
  if (!query) return { problem: t("softmax.missing") };
  const keys = keysOf(now, positions);
  if (!keys) return { problem: t("softmax.reading") };
  const missing = keys.filter((key) => key === undefined).length;
  if (missing) return { problem: t("softmax.keys_missing", { n: grouped(missing) }) };
  const soft = softmaxOf(query, /** @type {Float32Array[]} */ (keys), terms);
  const row = now.attention;
  const recorded = positions.map((position) => (row ? row.weights[position - row.keyStart] : null));
  const differences = recorded.map((weight, i) => Math.abs((weight ?? 0) - soft.weights[i]));
  const largest = row ? differences.reduce((most, one) => Math.max(most, one), 0) : null;
  return { found: { now: /** @type {Shown["now"]} */ (now), positions, terms, soft, recorded, largest } };
});

/**
 * Softmax panel. `choice` replaces the title where panels share one place. `isWide`: the full table fits.
 * @param {{choice?: Children, isWide?: boolean}} props
 */
export function Softmax({ choice = null, isWide = true }) {
  const [box, size] = useBox();
  const { problem, found } = shown.value;
  return html`<section class="panel softmax">
    <h3 class="panel-title">
      ${choice ?? t("softmax.title")}
      ${
        found && !isWide
          ? html`<span
        class="softmax-largest num">Δ${found.largest === null ? "–" : difference(found.largest)} <${Fidelity}
        kind="derived" formula=${`${t("softmax.largest")}. ${deltaWhy(found.now)}`} /></span>`
          : null
      }
      ${
        found && isWide
          ? html`<span
        class="softmax-query">${t("softmax.of", {
          token: labelText(found.now.labels[found.now.query]),
          position: found.now.query,
          n: grouped(found.soft.weights.length),
        })}</span>`
          : null
      }
    </h3>
    <div class="softmax-room" ref=${box}>${
      found ? html`<${Table} ...${found} size=${size} />` : html`<p class="hint">${problem}</p>`
    }</div>
  </section>`;
}

/** @param {Shown & {size: {width: number, height: number}}} props */
function Table({ now, positions, terms, soft, recorded, size }) {
  const isFull = size.width >= FULL_FROM;
  const others = (isFull ? 3 : 2) + (soft.sink ? 1 : 0); // rows other than keys: head, rest, sum, sink
  const room = Math.max(1, Math.floor(size.height / (isFull ? ROW : SMALL_ROW)) - others);
  const order = [...soft.weights.keys()].sort((a, b) => soft.weights[b] - soft.weights[a]);
  const count = order.length <= room + 1 ? order.length : room;
  const [top, rest] = [order.slice(0, count), order.slice(count)];
  /** @param {number} i */
  const gap = (i) => Math.abs((recorded[i] ?? 0) - soft.weights[i]);
  /** @param {(number | null)[]} values */
  const sum = (values) => values.reduce((/** @type {number} */ total, value) => total + (value ?? 0), 0);
  const recordedSum = recorded[0] === null ? null : sum(recorded);
  const score = scoreFormula(now, terms);
  const unseen = html`<span class="visually-hidden">${t("softmax.captured")}</span>`;
  /** @type {(text: unknown, kind: string, formula?: string, title?: string) => Children} */
  const head = (text, kind, formula, title) =>
    html`<th scope="col" ...${title ? tips([title]) : {}}>${text} <${Fidelity} kind=${kind} formula=${formula} /></th>`;
  /**
   * @type {(key: string | number, name: unknown, values: Cells, options?: {class?: string, on?: object}) => Children}
   */
  const row = (
    key,
    name,
    values,
    options = {},
  ) => html`<tr key=${key} class=${options.class ?? ""} ...${options.on ?? {}}>
    <th scope="row">${name}</th>
    <td>${values.score}</td>
    ${isFull ? html`<td>${values.exp}</td>` : null}
    <td>${values.weight}</td>
    <td class="captured">${values.captured}</td>
    ${isFull ? html`<td class="delta">${values.delta}</td>` : null}
  </tr>`;
  return html`<table class=${`softmax-table num${isFull ? "" : " brief"}`}>
      <thead>
        <tr>
          <th scope="col">${t("softmax.key")}</th>
          ${head(isFull ? score.name : t("softmax.score"), "derived", score.formula)}
          ${
            isFull
              ? html`${head("exp", "derived", t("softmax.exp", { max: plain(soft.max) }))}
              ${head(
                t(size.width >= 420 ? "softmax.weight" : "softmax.weight_short"),
                "derived",
                t("softmax.divide", { sum: plain(soft.sum) }),
              )}
              ${head(t("softmax.captured"), "captured", "")}${head(
                "|Δ|",
                "derived",
                t("softmax.delta"),
                deltaWhy(now),
              )}`
              : html`${head(
                  unseen,
                  "derived",
                  t("softmax.whole", { max: plain(soft.max), sum: plain(soft.sum) }),
                )}${head(unseen, "captured", "")}`
          }
        </tr>
      </thead>
      <tbody>
        ${top.map((i) => {
          const position = positions[i];
          const on = {
            onPointerEnter: () => (hovered.value = { query: now.query, position }),
            onPointerLeave: () => ((hovered.value = null), hideTip()),
            onClick: () => select({ query: now.query, position }),
          };
          const name = html`<button class="softmax-key" onFocus=${on.onPointerEnter}
            onBlur=${on.onPointerLeave}>${labelText(now.labels[position])}${
              isFull ? html`<small>@${position}</small>` : null
            }</button>`;
          return row(
            position,
            name,
            {
              score: plain(soft.scores[i]),
              exp: share(soft.exps[i]),
              weight: share(soft.weights[i]),
              captured: recorded[i] === null ? "–" : share(recorded[i]),
              delta: recorded[i] === null ? "–" : difference(gap(i)),
            },
            { on },
          );
        })}
        ${
          rest.length
            ? row(
                "rest",
                t("softmax.rest", { n: grouped(rest.length) }),
                {
                  score: "",
                  exp: share(sum(rest.map((i) => soft.exps[i]))),
                  weight: share(sum(rest.map((i) => soft.weights[i]))),
                  captured: recordedSum === null ? "–" : share(sum(rest.map((i) => recorded[i]))),
                  delta: recordedSum === null ? "–" : difference(Math.max(...rest.map(gap))),
                },
                { class: "rest" },
              )
            : null
        }
        ${
          soft.sink
            ? row(
                "sink",
                html`<span ...${tips([t("softmax.sink_what")])}>${t("softmax.sink")}</span>`,
                {
                  score: plain(soft.sink.score),
                  exp: share(soft.sink.exp),
                  weight: share(soft.sink.weight),
                  captured:
                    recordedSum === null
                      ? "–"
                      : html`${share(1 - recordedSum)} <${Fidelity} kind="derived" formula=${t("softmax.sink_captured")}
                        />`,
                  delta: recordedSum === null ? "–" : difference(Math.abs(1 - recordedSum - soft.sink.weight)),
                },
                { class: "sink" },
              )
            : null
        }
        ${
          isFull
            ? row(
                "sum",
                "Σ",
                {
                  score: "",
                  exp: plain(soft.sum),
                  weight: share(sum(soft.weights) + (soft.sink?.weight ?? 0)),
                  captured: recordedSum === null ? "–" : share(recordedSum),
                  delta: "",
                },
                { class: "sum" },
              )
            : null
        }
      </tbody>
    </table>`;
}
