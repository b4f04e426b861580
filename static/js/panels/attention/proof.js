// The proof that old rows never change: the same tokens computed all at once without the cache, compared number by
// number with what was captured over all the steps.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { canFetch, comparePosition, nothingCompared, rowSources } from "../../core/attention.js";
import { asBytes, decode } from "../../core/codec.js";
import { labelText } from "../../core/labels.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { tips } from "../../kit/tooltip.js";
import { command, wantLayer } from "../../net/commands.js";
import { settings } from "../../state/settings.js";
import { connection, hovered, select, sequenceView } from "../../state/store.js";
import { grouped, t } from "../../tell/words.js";

const ALL_HEADS = 1 << 20; // heads · tokens² up to which every head of the layer is compared; above it the chosen one
const SLICE_MS = 12; // of comparing before the page gets a turn

/** @typedef {import("../../core/trace.js").LayerCapture} LayerCapture */

/**
 * What is compared, and what came of it; without `weights` while it goes on.
 *
 * @typedef {import("../../state/store.js").View} View
 * @typedef {{query: number, key: number, head: number, kept: number, again: number}} WorstCell
 * @typedef {{count: number, max: number, worst: WorstCell | null}} Compared
 * @typedef {{
 *   log: View["log"], seq_id: number, layer: number, heads: number[], all: boolean, tokens: number, running?: boolean,
 *   rows?: number, weights?: Compared, k?: Compared, v?: Compared,
 * }} Comparison
 */

/**
 * The last comparison; null before it.
 *
 * @type {import("../../../vendor/signals/signals.js").Signal<Comparison | null>}
 */
const proof = signal(null);

/** The comparison of what is shown now, or null. */
const current = computed(() => {
  const [now, found] = [sequenceView.value, proof.value];
  if (!now || !found || found.log !== now.log || found.seq_id !== now.seq.seq_id || found.layer !== now.layer)
    return null;
  return found.tokens <= now.numFilled && (found.all || found.heads.includes(now.head)) ? found : null;
});

/** {query, key} of the largest difference, where it belongs to the head that is shown. */
export const worstCell = computed(() => {
  const worst = current.value?.weights?.worst;
  return worst && worst.head === sequenceView.value?.head ? worst : null;
});

/** Recompute the shown sequence as far as it is shown and compare. */
async function prove() {
  const now = sequenceView.value;
  if (!now) return;
  const tokens = now.numFilled;
  const { num_heads } = now.log.header.model;
  const all = num_heads * tokens ** 2 <= ALL_HEADS;
  const heads = all ? Array.from({ length: num_heads }, (_, head) => head) : [now.head];
  const about = { log: now.log, seq_id: now.seq.seq_id, layer: now.layer, heads, all, tokens };
  const mine = (proof.value = { ...about, running: true });
  const answer = await command("recompute", { seq_id: about.seq_id, layer: about.layer, heads, num_tokens: tokens });
  const own = now.seq.token_ids;
  const same = answer?.token_ids.every((id, i) => id === own[i]); // else another run's sequence
  const found =
    answer && same
      ? { ...about, ...(await compare(now, /** @type {LayerCapture} */ (decode(asBytes(answer.arrays))), heads)) }
      : null;
  if (proof.peek() === mine) proof.value = found; // else another comparison was asked for meanwhile
}

/**
 * @param {View} now
 * @param {LayerCapture} whole a layer of a capture, of every token
 * @param {number[]} heads
 */
async function compare(now, whole, heads) {
  const found = { weights: nothingCompared(), k: nothingCompared(), v: nothingCompared(), rows: 0 };
  let turn = performance.now();
  for (const [position, source] of rowSources(now).entries()) {
    if (source && canFetch(now.log, source, now.layer)) await wantLayer(source.record, now.layer);
    if (source && comparePosition(found, now.log, source, position, whole, heads)) found.rows += 1;
    if (performance.now() - turn < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    turn = performance.now();
  }
  return /** @type {{weights: Compared, k: Compared, v: Compared, rows: number}} */ (found);
}

export function Proof() {
  const live = connection.value !== "replay";
  const found = current.value;
  const why = live ? t("proof.what") : t("proof.replay");
  return html`<div class="proof" id="proof">
    <button class="quiet proof-run" aria-disabled=${!live || Boolean(found?.running)}
      onClick=${() => live && !found?.running && prove()} ...${tips([why])}>
      <${Icon} name="reset" />${
        found?.running
          ? t("proof.running")
          : html`<span>${
              t("proof.run_long")
                ? html`<span
        class="proof-long">${t("proof.run_long")} </span>`
                : null
            }${t("proof.run")}</span>`
      }
    </button>
    ${live ? null : html`<p class="proof-why">${t("proof.replay_short")}</p>`}
    <div role="status">${found?.weights ? html`<${Result} found=${found} />` : null}</div>
  </div>`;
}

/** @param {{found: Comparison}} props */
function Result({ found }) {
  const { weights, k, v } = found;
  if (!weights?.count) return html`<p class="proof-why">${t("proof.nothing")}</p>`;
  const scope = [
    t("proof.count", { n: grouped(weights.count) }),
    t("proof.scope", { rows: found.rows, heads: found.heads.length }),
  ];
  return html`<p class="proof-head">${t("proof.largest")} <${Fidelity} kind="derived"
    formula=${`${t("proof.formula", { dtype: dtypeOf(found.log) })}: ${scope.join(", ")}`} /></p>
    <dl class="proof-list num">
      <dt>${t("proof.weights")}</dt>
      <dd><${Worst} found=${found} /></dd>
      ${Object.entries({ K: k, V: v }).map(([name, one]) =>
        one?.count
          ? html`<dt class=${name.toLowerCase()}>${name}</dt><dd
            ...${tips([t("proof.of", { n: grouped(one.count) })])}>${difference(one.max)}</dd>`
          : null,
      )}
    </dl>
    <p class="proof-why proof-scope num">${scope[0]}<br />${scope[1]}</p>`;
}

/**
 * The largest difference of the weights; a click goes to it.
 *
 * @param {{found: Comparison}} props
 */
function Worst({ found }) {
  const { worst = null, max = 0 } = found.weights ?? {};
  const labels = sequenceView.value?.labels;
  if (!worst || !labels) return difference(max);
  /** @param {number} p */
  const at = (p) => t("matrix.token", { token: labelText(labels[p]), position: p });
  const lines = [
    t("proof.worst", { layer: found.layer, head: worst.head, query: at(worst.query), key: at(worst.key) }),
    t("proof.pair", { kept: exact(worst.kept), again: exact(worst.again) }),
  ];
  const go = () => {
    settings.head.value = worst.head;
    hovered.value = null;
    select({ query: worst.query, position: worst.key });
  };
  return html`<button class="proof-worst" aria-label=${`${difference(max)}: ${lines.join("; ")}`} onClick=${go}
    ...${tips(lines)}>${difference(max)}</button>`;
}

/** @param {import("../../core/log.js").TraceLog} log */
const dtypeOf = (log) => {
  for (let i = log.length - 1; i >= 0; i--) {
    const capture = log.records[i].has_capture ? log.capture(i) : null;
    if (capture) return capture.dtype;
  }
  return log.header.model.dtype;
};

/**
 * A difference as it is: 0 is 0, everything else has two digits.
 *
 * @param {number} value
 */
export const difference = (value) =>
  value === 0 ? "0" : value === Infinity ? "∞" : value.toExponential(1).replace("e-", "e−");

/** @param {number} value */
const exact = (value) => Number(value.toPrecision(8));
