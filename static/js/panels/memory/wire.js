// Transfers between instances: moved bytes, arrivals of this record, sequences waiting for blocks, and blocks held for
// another instance.

import { instanceName } from "../../core/instances.js";
import { movedUpTo, movesOf } from "../../core/moves.js";
import { bytesText, grouped, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { drawnIndex, log, record, select, state } from "../../state/store.js";

/** @import {Move} from "../../core/moves.js" */

export function Panel() {
  const [run, now] = [log.value, state.value];
  if (!run || !now) return null;
  const { bytes, count } = movedUpTo(run, drawnIndex.value);
  const links = new Set([...movesOf(run).byName.values()].flatMap(({ link }) => (link ? [link] : [])));
  const arrivals = (record.value?.ops ?? []).flatMap((op) => (op.type === "arrive" ? [op] : []));
  return html`<div class="wire num" id="wire" role="group" aria-label=${t("wire.label")}>
    <p class="wire-sum"><span class="wire-moved">${t("wire.moved")} <b data-bytes=${bytes}
      tabindex="0" ...${tips([t("wire.exact", { bytes: grouped(bytes) })])}>${bytesText(bytes)}</b>${" "}
      <${Fidelity} kind="captured" /></span>
      <span class="wire-link">${t("wire.count", { n: count })}${
        links.size ? ` · ${t("wire.over", { link: [...links].join(t("join.list")) })}` : ""
      }</span></p>
    <p class="wire-now">${
      arrivals.length
        ? arrivals.map(
            (op) =>
              html`<span key=${op.seq_id}><${Swatch} id=${op.seq_id} />${t("wire.came", {
                ...endpointsOf(op.seq_id),
                bytes: bytesText(op.num_bytes),
                seconds: secondsText(op.ended - op.began),
              })}</span>`,
          )
        : null
    }</p>
    <div class="wire-lines">
      <${SequenceQueue} name="receiving" seqs=${now.receiving} text=${receivingText} />
      <${SequenceQueue} name="holding" seqs=${now.holding} text=${holdingText} note=${leaseText(now.holding)} />
    </div>
  </div>`;
}

/** Names of the instances between which a sequence's blocks move. @param {number} seq */
function endpointsOf(seq) {
  const run = log.peek();
  const move = run && movesOf(run).bySeq.get(seq);
  if (!run || !move) return { from: "–", to: "–" };
  const at = (/** @type {number | null} */ id) =>
    id === null ? "–" : instanceName(run.header, run.tail.sequences.get(id)?.instance ?? 0);
  return { from: at(move.from), to: at(move.to) };
}

/** @param {number} seq */
const receivingText = (seq) => t("wire.awaited", { name: t("sequence.name", { id: seq }), ...endpointsOf(seq) });

/** Lease of a sequence's blocks in seconds. @param {number} seq */
function leaseOf(seq) {
  const run = log.peek();
  return (run && movesOf(run).bySeq.get(seq)?.lease) ?? null;
}

/** Range of the leases of several sequences, which may differ. @param {number[]} seqs */
function leaseText(seqs) {
  const leases = [...new Set(seqs.map(leaseOf))].sort((a, b) => (a ?? 0) - (b ?? 0));
  return leases.map(secondsText).join("–");
}

/** @param {number} seq */
const holdingText = (seq) =>
  t("wire.kept", { name: t("sequence.name", { id: seq }), lease: secondsText(leaseOf(seq)), ...endpointsOf(seq) });

/**
 * A queue of sequences in order. `note` is about all of them.
 * @param {{name: "receiving" | "holding", seqs: number[], text: (seq: number) => string, note?: string}} props
 */
function SequenceQueue({ name, seqs, text, note }) {
  return html`<p class="wire-line" data-queue=${name}><span class="queue-name">${t(`wire.${name}`)} <b>${seqs.length}</b
    >${note ? html` <small>${note}</small>` : null}</span><span class="wire-seqs">${seqs.map(
      (seq) => html`<button key=${seq} class="chip" ...${tips(() => [text(seq)])} aria-description=${text(seq)}
        onClick=${() => select({ seq })}><${Swatch} id=${seq} />${seq}</button>`,
    )}</span></p>`;
}
