// Proof that cached rows never change: the tokens are recomputed in one pass without the cache and compared number by
// number with the captures of all steps, in every layer.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { asBytes, decode } from "../../core/codec.js";
import { t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { lazy } from "../../kit/lazy.js";
import { tips } from "../../kit/tooltip.js";
import { command } from "../../net/commands.js";
import { connection, sequenceView } from "../../state/store.js";

/** @import {LayerCapture} from "../../core/trace.js" */
/** @import {View} from "../../state/store.js" */

const ALL_HEADS = 1 << 20; // heads · tokens²; above it, only the chosen head is compared
const ONE_PASS = 1 << 22; // layers · heads · tokens²; above it, each layer has its own pass

/**
 * A comparison and its results. `layers` has the layers compared so far.
 *
 * @typedef {{query: number, key: number, head: number, recorded: number, recomputed: number}} WorstCell
 * @typedef {{count: number, max: number, worst: WorstCell | null}} Compared
 * @typedef {{layer: number, rows: number, weights: Compared, k: Compared, v: Compared}} ComparedLayer
 * @typedef {{
 *   log: View["log"], seq_id: number, heads: number[], all: boolean, tokens: number, running: boolean,
 *   layers: ComparedLayer[],
 * }} Comparison
 */

const Result = lazy(() => import("./proof_result.js").then((found) => found.Result));
const Verdict = lazy(() => import("./proof_result.js").then((found) => found.Verdict));

/** The last comparison, or null. @type {import("../../../vendor/signals/signals.js").Signal<Comparison | null>} */
const proof = signal(null);

/** The comparison that applies to the shown view, or null. */
const current = computed(() => {
  const [now, found] = [sequenceView.value, proof.value];
  if (!now || !found || found.log !== now.log || found.seq_id !== now.seq.seq_id) return null;
  return found.tokens <= now.numFilled && (found.all || found.heads.includes(now.head)) ? found : null;
});

/** Results for the shown layer, or null. */
const shown = computed(() => current.value?.layers.find(({ layer }) => layer === sequenceView.value?.layer) ?? null);

/** Cell with the largest difference, if it belongs to the shown head. */
export const worstCell = computed(() => {
  const worst = shown.value?.weights.worst;
  return worst && worst.head === sequenceView.value?.head ? worst : null;
});

/** Recompute the shown sequence up to the shown record and compare. */
async function prove() {
  const now = sequenceView.value;
  if (!now) return;
  const tokens = now.numFilled;
  const { num_heads, num_layers } = now.log.header.model;
  const all = num_heads * tokens ** 2 <= ALL_HEADS;
  const heads = all ? Array.from({ length: num_heads }, (_, head) => head) : [now.head];
  /** @type {Comparison} */
  let comparison = { log: now.log, seq_id: now.seq.seq_id, heads, all, tokens, running: true, layers: [] };
  proof.value = comparison;
  /** @param {Partial<Comparison>} changes changed fields; returns whether this comparison is still the latest */
  const update = (changes) => {
    if (proof.peek() !== comparison) return false;
    proof.value = comparison = { ...comparison, ...changes };
    return true;
  };
  const { compare } = await import("./proof_result.js");
  const passes = num_layers * heads.length * tokens ** 2 <= ONE_PASS ? [null] : [...Array(num_layers).keys()];
  for (const layer of passes) {
    const message = { seq_id: comparison.seq_id, layer, heads, num_tokens: tokens };
    const answer = await command("recompute", message);
    const same = answer?.token_ids.every((id, i) => id === now.seq.token_ids[i]); // else of another run
    if (!answer || !same) return void (proof.peek() === comparison && (proof.value = null));
    for (const bytes of [answer.arrays].flat()) {
      const found = await compare(now, /** @type {LayerCapture} */ (decode(asBytes(bytes))), heads);
      if (!update({ layers: [...comparison.layers, found] })) return;
    }
  }
  update({ running: false });
}

export function Proof() {
  const live = connection.value !== "replay";
  const found = current.value;
  const tip = live ? t("proof.what") : t("proof.replay");
  return html`<div class="proof" id="proof">
    <button class="quiet proof-run" aria-disabled=${!live || Boolean(found?.running)}
      onClick=${() => live && !found?.running && prove()} ...${tips([tip])}>
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
    ${found && !found.running ? html`<${Result} found=${found} one=${shown.value} />` : null}
  </div>`;
}

/** The result of the comparison in a sentence, or `else` if there is none. @param {{else: string}} props */
export function ProofFoot({ else: other }) {
  const found = current.value;
  return html`<span role="status">${found && !found.running ? html`<${Verdict} found=${found} />` : null}</span>${
    found && !found.running ? null : other
  }`;
}
