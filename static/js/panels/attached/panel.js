// A server that is watched from outside: what it said, and what nobody said.

import { useEffect, useRef, useState } from "../../../vendor/preact/hooks.js";
import { branchesIn } from "../../core/branch_rows.js";
import { groupsOf, prefixTree } from "../../core/prefix_tree.js";
import { html } from "../../kit/html.js";
import { drawnIndex, log, state } from "../../state/store.js";
import { hashText } from "../../tell/operations.js";
import { grouped, secondsText, t } from "../../tell/words.js";
import { AskedFor, WhyNoHits } from "./answers.js";
import { countUpTo, familiesAt, hitRate, lastUpTo, ranksOf } from "./model.js";
import { cellAt, paintPlaces } from "./places.js";

const BRANCHES = 60;
/** By name, what vLLM calls it, and SGLang where it has it. */
const READINGS = [
  ["running", "vllm:num_requests_running", "sglang:num_running_reqs"],
  ["waiting", "vllm:num_requests_waiting", "sglang:num_queue_reqs"],
  ["usage", "vllm:kv_cache_usage_perc", "sglang:token_usage"],
  ["preemptions", "vllm:num_preemptions_total"],
  ["prompt", "vllm:prompt_tokens_total", "sglang:prompt_tokens_total"],
  ["generated", "vllm:generation_tokens_total", "sglang:generation_tokens_total"],
];

/**
 * @typedef {import("./model.js").Rank} Rank
 * @typedef {import("../../kit/html.js").Component} Component
 */

/**
 * `whole`: questions over the whole log, `branches`: the prefix cache as its largest branches; they are panels of their
 * own.
 *
 * @param {{whole: Component, branches: Component}} props
 */
export function Panel({ whole, branches }) {
  const [shown, now] = [log.value, state.value];
  const observed = shown?.header.observed;
  if (!shown || !now || !observed) return null;
  const ranks = ranksOf(shown);
  return html`<section class="attached" id="region-attached" aria-label=${t("attached.title")} tabindex="0">
    <header class="attached-head">
      <h2>${t("attached.of", { source: observed.source, model: shown.header.model.name || "?" })}</h2>
      <p>${t("attached.read_only")}</p>
    </header>
    ${ranks.map(
      (rank, instance) =>
        html`<${OneRank} key=${instance} rank=${rank} instance=${instance}
          many=${ranks.length > 1} branches=${branches} />`,
    )}
    <${AskedFor} index=${drawnIndex.value} />
    <${whole} />
    <${Unknowns} names=${observed.unknown} />
  </section>`;
}

/** @param {{rank: Rank, instance: number, many: boolean, branches: Component}} props */
function OneRank({ rank, instance, many, branches }) {
  const [index, from] = [drawnIndex.value, log.value?.header.observed?.events?.[instance] ?? ""];
  const since = lastUpTo(rank.since, index);
  const sums = lastUpTo(rank.sums, index);
  const message = lastUpTo(rank.messages, index);
  const problem = rank.problems.findLast((one) => one.index <= index);
  const gaps = rank.since.filter((one) => one.reason === "gap" && one.index <= index).length;
  const isFresh = problem && (lastUpTo([...rank.messages], index)?.index ?? -1) <= problem.index;
  const isOpen = since?.reason === "cleared" && since.outside; // a cleared GPU says nothing of what stands elsewhere
  return html`<div class="attached-rank">
    <h3>${many ? t("attached.rank", { n: instance }) : t("attached.events")} <small>${from}</small></h3>
    <p class="attached-since" data-reason=${since?.reason}>${
      since
        ? t(`attached.since.${since.reason}`, { n: since.sequence, at: secondsText(since.at), missed: since.missed })
        : t("attached.since.never")
    }${isOpen ? ` ${t("attached.since.outside", { n: since.outside })}` : null}</p>
    ${isFresh ? html`<p class="attached-problem" role="status">${problem.problem}</p>` : null}
    <dl class="attached-figures">
      <${Figure} name="messages" value=${grouped(countUpTo(rank.messages, index))} />
      <${Figure} name="last" value=${message ? grouped(message.sequence) : "–"} />
      <${Figure} name="replayed" value=${grouped(sums?.replayed ?? 0)} />
      <${Figure} name="epochs" value=${grouped((since?.epoch ?? 0) + 1)} />
      <${Figure} name="gaps" value=${grouped(gaps)} />
      <${Figure} name="unmatched" value=${grouped(sums?.unmatched ?? 0)} />
      ${sums?.unread ? html`<${Figure} name="unread" value=${grouped(sums.unread)} />` : null}
    </dl>
    <${Readings} rank=${rank} index=${index} />
    <${WhyNoHits} instance=${instance} index=${index} />
    <${Places} instance=${instance} />
    <${Families} rank=${rank} index=${index} />
    <${Beginnings} instance=${instance} branches=${branches} />
  </div>`;
}

/** @param {{name: string, value: string | null}} props null: unknown */
const Figure = ({ name, value }) =>
  html`<div title=${t(value === null ? "attached.no_metrics" : `attached.figure.${name}.why`)}>
    <dt>${t(`attached.figure.${name}`)}</dt>
    <dd class=${value === null ? "is-unknown" : ""}>${value ?? t("attached.unknown")}</dd>
  </div>`;

/** @param {{rank: Rank, index: number}} props */
function Readings({ rank, index }) {
  const rate = hitRate(rank, index);
  const hits = rate === null ? null : `${(100 * rate).toFixed(1)} %`;
  return html`<dl class="attached-figures attached-readings">
    ${READINGS.map(([name, ...keys]) => {
      const key = keys.find((one) => rank.readings.has(one)) ?? keys[0];
      const list = rank.readings.get(key) ?? [];
      const last = lastUpTo(list, index);
      const value = last ? (name === "usage" ? `${(100 * last.value).toFixed(1)} %` : grouped(last.value)) : null;
      return html`<div key=${name} title=${last ? key : t("attached.no_metrics")}>
        <dt>${t(`attached.reading.${name}`)}</dt>
        <dd class=${value === null ? "is-unknown" : ""}>${value ?? t("attached.unknown")}</dd>
        <${Line} readings=${list.slice(0, countUpTo(list, index))} />
      </div>`;
    })}
    <div title=${rate === null ? t("attached.no_metrics") : t("attached.reading.hits.why")}>
      <dt>${t("attached.reading.hits")}</dt>
      <dd class=${hits === null ? "is-unknown" : ""}>${hits ?? t("attached.unknown")}</dd>
    </div>
  </dl>`;
}

/** The last two minutes of a number. @param {{readings: import("./model.js").Reading[]}} props */
function Line({ readings }) {
  const some = readings.slice(-120);
  if (some.length < 2) return null;
  const [first, last] = [some[0].at, some[some.length - 1].at];
  const values = some.map(({ value }) => value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const share = (/** @type {number} */ part, /** @type {number} */ whole) => part / Math.max(whole, 1e-9);
  const points = some.map(
    ({ at, value }) => `${100 * share(at - first, last - first)},${19 - 18 * share(value - least, most - least)}`,
  );
  return html`<svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><polyline
    points=${points.join(" ")} /></svg>`;
}

/** The pool's places: of each whether a content is known there. @param {{instance: number}} props */
function Places({ instance }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [pointed, setPointed] = useState(/** @type {number | null} */ (null));
  const now = state.value;
  const group = now ? groupsOf(now, instance)[0] : null;
  const places = now && group ? now.blocks.slice(group.first_block, group.first_block + group.num_blocks) : [];
  const count = places.filter((block) => block.block_hash !== null).length;
  const [all, left] = [grouped(places.length), grouped(places.length - count)];
  const said = t("attached.places", { n: grouped(count), all, left });
  useEffect(() => {
    if (canvas.current) paintPlaces(canvas.current, places, drawnIndex.value);
  });
  const one = pointed === null ? null : places[pointed];
  return html`<figure class="attached-places">
    <figcaption>${said}</figcaption>
    <canvas ref=${canvas} role="img" aria-label=${said}
      onPointerMove=${(/** @type {PointerEvent} */ event) => setPointed(cellAt(event, places.length))}
      onPointerLeave=${() => setPointed(null)}></canvas>
    <p class="attached-legend"><i class="swatch-known"></i>${t("attached.known")}<i
      class="swatch-fresh"></i>${t("attached.fresh")}<i class="swatch-unknown"></i>${t("attached.unknown_place")}</p>
    <p class="attached-place" role="status">${
      one
        ? one.block_hash
          ? t("attached.place", {
              hash: hashText(one.block_hash),
              n: one.token_ids.length || t("attached.unknown"),
              record: one.allocated_in ?? 0,
            })
          : t("attached.place.unknown")
        : t("attached.place.point")
    }</p>
  </figure>`;
}

/** What most of the cache begins with. @param {{instance: number, branches: Component}} props */
function Beginnings({ instance, branches }) {
  if (!log.value || !state.value) return null;
  const found = branchesIn(prefixTree(log.value, state.value, instance), BRANCHES);
  if (!found.branches.length) return null;
  return html`<h4>${t("attached.beginnings")}</h4><${branches} found=${found} observed=${true} />`;
}

/** What is cached where, and for which layers and adapters. @param {{rank: Rank, index: number}} props */
function Families({ rank, index }) {
  const found = familiesAt(rank, index);
  if (!found.length) return null;
  const unsaid = html`<span class="is-unknown">${t("attached.unknown")}</span>`;
  return html`<table class="attached-families"><caption>${t("attached.families")}</caption>
    <thead><tr>${["where", "group", "lora", "contents"].map(
      (name) => html`<th key=${name} scope="col">${t(`attached.families.${name}`)}</th>`,
    )}</tr></thead>
    <tbody>${found.map(
      ({ medium, tier, group, kind, window, lora, count }, i) =>
        html`<tr key=${i}><td>${medium || "GPU"}${tier ? html` <small>${tier}</small>` : null}</td>
        <td>${group ?? unsaid}${kind ? html` <small>${kind}${window ? ` ${grouped(window)}` : ""}</small>` : null}</td>
        <td>${lora ?? "–"}</td><td>${grouped(count)}</td></tr>`,
    )}</tbody></table>`;
}

/** @param {{names: string[]}} props */
const Unknowns = ({ names }) =>
  html`<details class="attached-unknowns" open><summary>${t("attached.unknowns", { n: names.length })}</summary>
    <dl>${names.map(
      (name) =>
        html`<div key=${name}><dt><span aria-hidden="true">?</span> ${t(`unknown.${name}`)}</dt><dd>${t(
          `attached.unknown.${name}.why`,
        )}</dd></div>`,
    )}</dl></details>`;
