// A monitored server: the state that it reports, and a list of what it does not report.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { branchesIn } from "../../core/branch_rows.js";
import { observedCacheOf } from "../../core/observed_cache.js";
import { groupsOf, prefixTree } from "../../core/prefix_tree.js";
import { hashText } from "../../i18n/operations.js";
import { grouped, secondsText, t } from "../../i18n/words.js";
import { prepare } from "../../kit/canvas.js";
import { colours } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { useQuery } from "../../kit/use_query.js";
import { observedCache as indexedCache, place } from "../../net/log_index.js";
import { drawnIndex, log, longRun, state } from "../../state/store.js";
import { PromptQuery, WhyNoHits } from "./questions.js";

/** @import {ObservedCache, RankReport} from "../../core/observed_cache.js" */
/** @import {Block} from "../../core/state_access.js" */
/** @import {Header} from "../../core/trace.js" */
/** @import {Component} from "../../kit/html.js" */

const MAX_HEIGHT = 220; // px
const MAX_SIDE = 12; // px
const FRESH_RECORDS = 32; // for which a content counts as newly stored

/** Return the side of a cell in px so that `count` cells fill `width`. @param {number} count @param {number} width */
function sideOf(count, width) {
  const side = Math.sqrt((Math.max(1, width) * MAX_HEIGHT) / Math.max(1, count));
  return Math.max(1, Math.min(MAX_SIDE, Math.floor(side)));
}

/** @param {HTMLCanvasElement} canvas @param {Block[]} blocks @param {number} index of the record that is shown */
function paintBlocks(canvas, blocks, index) {
  const width = canvas.parentElement?.clientWidth ?? 300;
  const side = sideOf(blocks.length, width);
  const columns = Math.max(1, Math.floor(width / side));
  const context = prepare(canvas, columns * side, Math.ceil(blocks.length / columns) * side);
  const { "ink-3": ink, v: fresh, line } = colours();
  const gap = side > 3 ? 1 : 0;
  for (const [at, { block_hash: hash, allocated_in: since }] of blocks.entries()) {
    const [x, y] = [(at % columns) * side, Math.floor(at / columns) * side];
    if (hash !== null) {
      context.fillStyle = since !== null && index - since < FRESH_RECORDS ? fresh : ink;
      context.fillRect(x, y, side - gap, side - gap);
    } else if (side > 5) {
      context.strokeStyle = line;
      context.beginPath(); // a diagonal marks unknown contents, not an empty block
      context.moveTo(x + 1, y + side - 2);
      context.lineTo(x + side - 2, y + 1);
      context.stroke();
    }
  }
}

/** Index of the block under the pointer, or null. @param {PointerEvent} event @param {number} count */
function cellAt(event, count) {
  const canvas = /** @type {HTMLCanvasElement} */ (event.currentTarget);
  const width = canvas.parentElement?.clientWidth ?? 300;
  const side = sideOf(count, width);
  const columns = Math.max(1, Math.floor(width / side));
  const [column, row] = [Math.floor(event.offsetX / side), Math.floor(event.offsetY / side)];
  const at = row * columns + column;
  return column < columns && at >= 0 && at < count ? at : null;
}

const MAX_BRANCHES = 60;
/** Metric names by figure: vLLM's, then SGLang's if it exports one. */
const READINGS = [
  ["running", "vllm:num_requests_running", "sglang:num_running_reqs"],
  ["waiting", "vllm:num_requests_waiting", "sglang:num_queue_reqs"],
  ["usage", "vllm:kv_cache_usage_perc", "sglang:token_usage"],
  ["preemptions", "vllm:num_preemptions_total"],
  ["prompt", "vllm:prompt_tokens_total", "sglang:prompt_tokens_total"],
  ["generated", "vllm:generation_tokens_total", "sglang:generation_tokens_total"],
];

/**
 * Panel of a monitored server. It shows two other panels: `queries` (queries over the log) and `branches` (largest
 * branches of the prefix cache).
 * @param {{queries: Component, branches: Component}} props
 */
export function Panel({ queries, branches }) {
  const [large, shown] = [longRun.value, log.value];
  if (large) return html`<${Reports} cache=${indexedCache} header=${large.header} index=${place.value} />`;
  if (!shown?.header.observed || !state.value) return null;
  return html`<section class="monitor" id="region-monitor" aria-label=${t("monitor.title")} tabindex="0">
    <header class="monitor-head"><${Title} header=${shown.header} /></header>
    <${Reports} cache=${observedCacheOf(shown)} header=${shown.header} index=${drawnIndex.value} queries=${queries}
      branches=${branches} />
  </section>`;
}

/** Title of a monitored run, also for logs that are read in windows. @param {{header: Header}} props */
export const Title = ({ header: { observed, model } }) => html`<h2>${t("monitor.of", {
  source: observed?.source ?? "?",
  model: model.name || "?",
})}</h2>
  <p>${t("monitor.read_only")}</p>`;

/**
 * Reports of all ranks up to a record. If the complete log is loaded, the pool's contents, `queries` and `branches` are
 * shown too; for a longer log the long run's panel shows them.
 * @param {{cache: ObservedCache, header: Header, index: number, queries?: Component, branches?: Component}} props
 */
function Reports({ cache, header, index, queries, branches }) {
  const query = () => {
    const report = cache.reports(index);
    return report instanceof Promise ? report.then((ranks) => ({ ranks, index })) : { ranks: report, index };
  };
  const { answer, problem } = useQuery(index < 0 ? null : query, [cache, index], cache.still);
  const { events = [], unknown = [] } = header.observed ?? {};
  return html`<div class="monitor-said">
    ${problem && html`<p class="monitor-problem" role="alert" lang="en">${problem}</p>`}
    ${answer?.ranks.map(
      (report, rank, { length }) =>
        html`<${RankSection} key=${rank} ...${{ cache, report, rank, header, branches }} index=${answer.index}
          from=${events[rank] ?? ""} hasRanks=${length > 1} />`,
    )}
    <${PromptQuery} cache=${cache} index=${index} />
    ${queries && html`<${queries} />`}
    <${Unknowns} names=${unknown} open=${Boolean(queries)} />
  </div>`;
}

/**
 * @param {{
 *   cache: ObservedCache, report: RankReport, rank: number, index: number, header: Header, from: string,
 *   hasRanks: boolean, branches?: Component,
 * }} props `index`: of the last record that `report` covers
 */
function RankSection({ cache, report, rank, index, header, from, hasRanks, branches }) {
  const { since, problem } = report;
  const isOpen = since?.reason === "cleared" && since.outside; // a cleared GPU cache does not imply cleared outer tiers
  return html`<div class="monitor-rank">
    <h3>${hasRanks ? t("monitor.rank", { n: rank }) : t("monitor.events")} <small>${from}</small></h3>
    <p class="monitor-since" data-reason=${since?.reason}>${
      since
        ? t(`monitor.since.${since.reason}`, { n: since.sequence, at: secondsText(since.at), missed: since.missed })
        : t("monitor.since.never")
    }${isOpen ? ` ${t("monitor.since.outside", { n: since.outside })}` : null}</p>
    ${problem ? html`<p class="monitor-problem" role="status" lang="en">${problem}</p>` : null}
    <dl class="monitor-figures">
      <${Figure} name="messages" value=${grouped(report.messages)} />
      <${Figure} name="last" value=${report.last === null ? "–" : grouped(report.last)} />
      <${Figure} name="replayed" value=${grouped(report.replayed)} />
      <${Figure} name="epochs" value=${grouped((since?.epoch ?? 0) + 1)} />
      <${Figure} name="gaps" value=${grouped(report.gaps)} />
      <${Figure} name="unmatched" value=${grouped(report.unmatched)} />
      ${report.unread ? html`<${Figure} name="unread" value=${grouped(report.unread)} />` : null}
    </dl>
    <${Readings} report=${report} />
    <${WhyNoHits} ...${{ cache, report, rank, index }} blockSize=${Number(header.engine.block_size ?? 1)} />
    ${branches && html`<${PoolMap} instance=${rank} />`}
    <${Families} found=${report.families} />
    ${branches && html`<${LargestBranches} instance=${rank} branches=${branches} />`}
  </div>`;
}

/** @param {{name: string, value: string | null}} props null: unknown */
const Figure = ({ name, value }) =>
  html`<div title=${t(value === null ? "monitor.no_metrics" : `monitor.figure.${name}.why`)}>
    <dt>${t(`monitor.figure.${name}`)}</dt>
    <dd class=${value === null ? "is-unknown" : ""}>${value ?? t("monitor.unknown")}</dd>
  </div>`;

/** @param {{report: RankReport}} props */
function Readings({ report: { readings, hits: since } }) {
  const hits = since?.asked ? `${((100 * since.hits) / since.asked).toFixed(1)} %` : null;
  return html`<dl class="monitor-figures monitor-readings">
    ${READINGS.map(([name, ...keys]) => {
      const key = keys.find((one) => readings[one]) ?? keys[0];
      const last = readings[key]?.at(-1)?.[1];
      const value = last === undefined ? null : name === "usage" ? `${(100 * last).toFixed(1)} %` : grouped(last);
      return html`<div key=${name} title=${value === null ? t("monitor.no_metrics") : key}>
        <dt>${t(`monitor.reading.${name}`)}</dt>
        <dd class=${value === null ? "is-unknown" : ""}>${value ?? t("monitor.unknown")}</dd>
        <${Line} points=${readings[key] ?? []} />
      </div>`;
    })}
    <div title=${hits === null ? t("monitor.no_metrics") : t("monitor.reading.hits.why")}>
      <dt>${t("monitor.reading.hits")}</dt>
      <dd class=${hits === null ? "is-unknown" : ""}>${hits ?? t("monitor.unknown")}</dd>
    </div>
  </dl>`;
}

/** Plot the last two minutes of a metric. @param {{points: import("../../core/observed_cache.js").Point[]}} props */
function Line({ points }) {
  if (points.length < 2) return null;
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const values = points.map(([, value]) => value);
  const [lowest, highest] = [Math.min(...values), Math.max(...values)];
  const share = (/** @type {number} */ part, /** @type {number} */ whole) => part / Math.max(whole, 1e-9);
  const line = points.map(
    ([at, value]) => `${100 * share(at - first, last - first)},${19 - 18 * share(value - lowest, highest - lowest)}`,
  );
  return html`<svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><polyline
    points=${line.join(" ")} /></svg>`;
}

/** Blocks of the pool, and whether the content of each is known. @param {{instance: number}} props */
function PoolMap({ instance }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [pointed, setPointed] = useState(/** @type {number | null} */ (null));
  const now = state.value;
  const group = now ? groupsOf(now, instance)[0] : null;
  const blocks = now && group ? now.blocks.slice(group.first_block, group.first_block + group.num_blocks) : [];
  const count = blocks.filter((block) => block.block_hash !== null).length;
  const [all, left] = [grouped(blocks.length), grouped(blocks.length - count)];
  const report = t("monitor.places", { n: grouped(count), all, left });
  useEffect(() => {
    if (canvas.current) paintBlocks(canvas.current, blocks, drawnIndex.value);
  });
  const one = pointed === null ? null : blocks[pointed];
  return html`<figure class="monitor-places">
    <figcaption>${report}</figcaption>
    <canvas ref=${canvas} role="img" aria-label=${report}
      onPointerMove=${(/** @type {PointerEvent} */ event) => setPointed(cellAt(event, blocks.length))}
      onPointerLeave=${() => setPointed(null)}></canvas>
    <p class="monitor-legend"><i class="swatch-known"></i>${t("monitor.known")}<i
      class="swatch-fresh"></i>${t("monitor.fresh")}<i class="swatch-unknown"></i>${t("monitor.unknown_place")}</p>
    <p class="monitor-place" role="status">${
      one
        ? one.block_hash
          ? t("monitor.place", {
              hash: hashText(one.block_hash),
              n: one.token_ids.length || t("monitor.unknown"),
              record: one.allocated_in ?? 0,
            })
          : t("monitor.place.unknown")
        : t("monitor.place.point")
    }</p>
  </figure>`;
}

/** The largest branches of the prefix cache. @param {{instance: number, branches: Component}} props */
function LargestBranches({ instance, branches }) {
  if (!log.value || !state.value) return null;
  const found = branchesIn(prefixTree(log.value, state.value, instance), MAX_BRANCHES);
  if (!found.branches.length) return null;
  return html`<h4>${t("monitor.beginnings")}</h4><${branches} found=${found} observed=${true} />`;
}

/** Cached contents by medium, layer group and adapter. @param {{found: RankReport["families"]}} props */
function Families({ found }) {
  if (!found.length) return null;
  const unsaid = html`<span class="is-unknown">${t("monitor.unknown")}</span>`;
  return html`<table class="monitor-families"><caption>${t("monitor.families")}</caption>
    <thead><tr>${["where", "group", "lora", "contents"].map(
      (name) => html`<th key=${name} scope="col">${t(`monitor.families.${name}`)}</th>`,
    )}</tr></thead>
    <tbody>${found.map(
      ({ medium, tier, group, kind, window, lora, count }, i) =>
        html`<tr key=${i}><td>${medium || "GPU"}${tier ? html` <small>${tier}</small>` : null}</td>
        <td>${group ?? unsaid}${kind ? html` <small>${kind}${window ? ` ${grouped(window)}` : ""}</small>` : null}</td>
        <td>${lora ?? "–"}</td><td>${grouped(count)}</td></tr>`,
    )}</tbody></table>`;
}

/** @param {{names: string[], open: boolean}} props `open`: initially expanded */
const Unknowns = ({ names, open }) =>
  html`<details class="monitor-unknowns" open=${open}><summary>${t("monitor.unknowns", { n: names.length })}</summary>
    <dl>${names.map(
      (name) =>
        html`<div key=${name}><dt><span aria-hidden="true">?</span> ${t(`unknown.${name}`)}</dt><dd>${t(
          `monitor.unknown.${name}.why`,
        )}</dd></div>`,
    )}</dl></details>`;
