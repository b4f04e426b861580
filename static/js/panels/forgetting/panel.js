// Keys evicted per KV head: a matrix of tokens and heads, the reason for an eviction, the freed memory and the cost.

import { useState } from "../../../vendor/preact/hooks.js";
import { canFork, fork, problem } from "../../control/fork.js";
import { jumpTo } from "../../control/playback.js";
import {
  forgettingHeads,
  forgottenBy,
  heaviestForgotten,
  memoryOf,
  qualityOf,
  scoresOf,
} from "../../core/forgetting.js";
import { bytesText as bytes, grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { useLongList } from "../../kit/long_list.js";
import { useBox } from "../../kit/measure.js";
import { Term } from "../../kit/term.js";
import { captureVersion, drawnIndex, layer, log, sequenceView, state } from "../../state/store.js";

/** @import {Dropped} from "../../core/forgetting.js" */
/** @import {TraceLog} from "../../core/log.js" */
/** @import {State} from "../../core/state_access.js" */

/**
 * @typedef {import("../../core/sequence_view.js").SequenceView} View
 * @typedef {{layer: number, head: number, position: number}} Cell
 */

const ROW = 24; // px
const HEAD = 28; // px
const MAX_COLUMNS = 24; // of a matrix of all layers; a model with more heads shows only the chosen layer's

export function Panel() {
  const [trace, view, current] = [log.value, sequenceView.value, state.value];
  const [cell, setCell] = useState(/** @type {Cell | null} */ (null));
  captureVersion.value; // dependency: arrays may arrive later
  if (!trace || !view || !current) return html`<p class="hint">${t("forgetting.empty")}</p>`;
  const { engine, model } = trace.header;
  const heads = forgettingHeads(model);
  const columns = heads.length <= MAX_COLUMNS ? heads : heads.filter((one) => one.layer === layer.value);
  const values = { policy: t(`option.forget_policy.${engine.forget_policy}`), budget: Number(engine.forget_budget) };
  return html`<div class="forgetting" id="forgetting">
    <header>
      <h3 class="panel-title"><${Term} id="forgetting">${t("forgetting.title", values)}<//> <${Fidelity}
        kind="captured" /></h3>
      <p class="hint num">${t("forgetting.rule", {
        ...values,
        sinks: Number(engine.forget_sinks),
        recent: Number(engine.forget_recent),
      })}</p>
    </header>
    <div class="forgetting-body">
      <${Matrix} view=${view} columns=${columns} cell=${cell} choose=${setCell} />
      <div class="forgetting-facts">
        <div class="forgetting-why" role="status"><${Why} view=${view} cell=${cell} budget=${values.budget} /></div>
        <${Memory} trace=${trace} current=${current} view=${view} />
        <${Quality} view=${view} choose=${setCell} />
        ${
          columns.length < heads.length
            ? html`<p class="hint">${t(columns.length ? "forgetting.one_layer" : "forgetting.other_layers")}</p>`
            : null
        }
      </div>
    </div>
  </div>`;
}

/**
 * @param {{view: View, columns: {layer: number, head: number}[], cell: Cell | null,
 *   choose: (cell: Cell) => void}} props
 */
function Matrix({ view, columns, cell, choose }) {
  const [box, size] = useBox();
  const count = view.numFilled;
  const list = useLongList({ box, height: size.height, count, high: ROW, head: HEAD });
  const evicted = columns.map((one) => forgottenBy(view.seq, one.layer, one.head));
  const scores = columns.map((one) => scoresOf(view.log, view.index, view.seq.seq_id, one.layer));
  const shares = columns.map(({ head }, i) => sharesOf(scores[i], head));
  const rows = Array.from({ length: Math.max(0, list.last - list.first) }, (_, i) => list.first + i);
  return html`<div class="forgetting-scroll" ref=${box} onScroll=${list.scrolled} tabindex="0" role="region"
    aria-label=${t("forgetting.matrix")}>
    <table class="num"><thead><tr><th scope="col">${t("forgetting.token")}</th>${columns.map(
      ({ layer: i, head }) =>
        html`<th scope="col" key=${`${i}.${head}`} title=${t("forgetting.head", { layer: i, head })}>${i}·${head}</th>`,
    )}</tr></thead>
    <tbody>
      <tr aria-hidden="true" style=${{ height: `${list.first * ROW}px` }}></tr>
      ${rows.map(
        (position) => html`<tr key=${position} data-row=${position} style=${{ height: `${ROW}px` }}
          data-pinned=${view.seq.pinned.includes(position)}>
          <th scope="row"><small>${position}</small> <span>${view.labels[position]?.text ?? ""}</span></th>
          ${columns.map((one, i) => {
            const eviction = evicted[i].get(position);
            const isChosen = cell?.position === position && cell.layer === one.layer && cell.head === one.head;
            const words = { ...one, position, at: eviction?.at ?? 0 };
            return html`<td key=${i}><button class="forgetting-cell" data-gone=${eviction !== undefined}
              aria-pressed=${isChosen} style=${eviction ? undefined : { "--share": shares[i][position] ?? 0.5 }}
              aria-label=${t(eviction ? "forgetting.cell.gone" : "forgetting.cell.kept", words)}
              onClick=${() => choose({ ...one, position })}></button></td>`;
          })}
        </tr>`,
      )}
      <tr aria-hidden="true" style=${{ height: `${(count - Math.min(count, list.last)) * ROW}px` }}></tr>
    </tbody></table>
  </div>`;
}

/**
 * Map a head's scores to shares by rank, the best being 1, since scores of different policies are not comparable.
 * @param {import("../../core/ndarray.js").NdArray | null} scores @param {number} head @returns {number[]}
 */
function sharesOf(scores, head) {
  if (!scores) return [];
  const ownScores = Array.from({ length: scores.shape[1] }, (_, i) => scores.row(head)[i]);
  const order = ownScores.map((score, i) => [score, i]).filter(([score]) => !Number.isNaN(score));
  order.sort(([a], [b]) => a - b);
  /** @type {number[]} */
  const shares = [];
  for (const [rank, [, i]] of order.entries()) shares[i] = 0.25 + (0.75 * (rank + 1)) / order.length;
  return shares;
}

/**
 * The reason for a key's eviction, with a button to fork without it, or a note that the key is cached.
 * @param {{view: View, cell: Cell | null, budget: number}} props
 */
function Why({ view, cell, budget }) {
  if (!cell) return html`<p class="hint">${t("forgetting.choose")}</p>`;
  const eviction = forgottenBy(view.seq, cell.layer, cell.head).get(cell.position);
  const token = view.labels[cell.position]?.text ?? "";
  const words = { ...cell, token, budget };
  if (!eviction) return html`<p id="forgetting-why">${t("forgetting.stays", words)}</p>`;
  const values = {
    ...words,
    at: eviction.at,
    rank: eviction.rank,
    score: short(eviction.score),
    lowest: short(eviction.lowest),
  };
  return html`<div id="forgetting-why">
    <p>${t(eviction.lowest === null ? "forgetting.why_full" : "forgetting.why", values)}</p>
    <${KeepButton} view=${view} position=${cell.position} />
  </div>`;
}

/** @param {{view: View, position: number}} props */
function KeepButton({ view, position }) {
  const first = view.log.records.findIndex((record) =>
    record.ops?.some(
      (op) =>
        op.type === "forget" && op.seq_id === view.seq.seq_id && op.positions.some((own) => own.includes(position)),
    ),
  );
  if (!canFork.value || first < 0 || view.seq.parent_seq_id !== null) return null;
  const change = /** @type {const} */ ({ kind: "keep", seq_id: view.seq.seq_id, position, record: first });
  return html`<button class="tool" id="forgetting-keep" onClick=${() => fork(change)}>${t("forgetting.keep")}</button>
    ${problem.value ? html`<p class="compare-problem">${problem.value}</p>` : null}`;
}

/** @param {{trace: TraceLog, current: State, view: View}} props */
function Memory({ trace, current, view }) {
  if (view.seq.status === "finished")
    return html`<p class="hint" id="forgetting-memory">${t("forgetting.finished")}</p>`;
  const found = memoryOf(trace, current, view.seq);
  return html`<dl class="num" id="forgetting-memory">
    <dt>${t("forgetting.masked")} <${Fidelity} kind="derived" formula=${t("forgetting.masked.formula")} /></dt>
    <dd>${t("forgetting.masked.value", { n: grouped(found.pairs), bytes: bytes(found.maskedBytes) })}</dd>
    <dt>${t("forgetting.freed")} <${Fidelity} kind="derived" formula=${t("forgetting.freed.formula")} /></dt>
    <dd>${t("forgetting.freed.value", { n: found.freedBlocks, bytes: bytes(found.freedBytes) })}</dd>
    <dt>${t("forgetting.packing")} <${Fidelity} kind="schematic" /></dt>
    <dd>${t("forgetting.packing.value", {
      n: found.packedBlocks,
      bytes: bytes(found.packedBytes),
      moves: grouped(found.moves),
      moved: bytes(found.movedBytes),
    })}</dd>
  </dl>`;
}

/** @param {{view: View, choose: (cell: Cell) => void}} props */
function Quality({ view, choose }) {
  const found = qualityOf(view.log, drawnIndex.value, view.seq.seq_id);
  const missed = heaviestForgotten(view);
  const cell = missed && { layer: missed.layer, head: missed.kvHead, position: missed.position };
  return html`<div class="num" id="forgetting-quality">
    ${
      found
        ? html`<p>${t("forgetting.quality", {
            n: found.outputs,
            divergence: short(found.divergence),
            mean: short(found.divergence / found.outputs),
            logprob: found.logprob.toFixed(2),
            full: found.fullLogprob.toFixed(2),
          })} <${Fidelity} kind="captured" /></p>
          <p>${t("forgetting.changed", { n: found.changed })} ${
            found.lastChange >= 0
              ? html`<button class="link" onClick=${() => jumpTo(found.lastChange)}>${t(
                  "forgetting.last_change",
                )}</button>`
              : null
          }</p>`
        : html`<p class="hint">${t("forgetting.no_quality")}</p>`
    }
    ${
      missed && cell
        ? html`<p><button class="link" onClick=${() => choose(cell)}>${t("forgetting.missed", {
            token: view.labels[missed.position]?.text ?? "",
            position: missed.position,
            share: (100 * missed.weight).toFixed(1),
            layer: missed.layer,
            head: missed.head,
            n: missed.heads,
          })}</button> <${Fidelity} kind="derived" formula=${t("forgetting.missed.formula")} /></p>`
        : null
    }
  </div>`;
}

/** Format with four significant digits. @param {number | null} value */
const short = (value) => (value === null ? "" : Number(value.toPrecision(4)).toString());
