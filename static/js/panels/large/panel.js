// A log that is too long to load: the run over time, and the pool and sequences at the shown record.

import { useEffect, useState } from "../../../vendor/preact/hooks.js";
import { jumpTo, play, playing, stepRecord, stop } from "../../control/playback.js";
import { reset } from "../../control/restart.js";
import { operationName } from "../../i18n/operations.js";
import { grouped, secondsText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Numeric, Select } from "../../kit/inputs.js";
import { useQuery } from "../../kit/use_query.js";
import { command } from "../../net/commands.js";
import { ATTACHED } from "../../net/followed_run.js";
import {
  bins,
  follow,
  isBehind,
  isRebuilt,
  overview,
  place,
  prefixesAt,
  problem,
  STILL_MS,
  show,
  shown,
} from "../../net/log_index.js";
import { settings } from "../../state/settings.js";
import { backToLive, connection, following, own, status, viewIndex } from "../../state/store.js";
import { MetricRows } from "./metric_rows.js";
import { Pool } from "./pool.js";
import { Sequences } from "./sequences.js";

/** @import {Component} from "../../kit/html.js" */

/** @param {{branches: Component, observed: boolean}} props `branches`: component that renders them */
function PrefixBranches({ branches, observed }) {
  const [isOpen, setOpen] = useState(false);
  const [instance, setInstance] = useState(0);
  const current = place.value;
  const instances = own.large.value?.header.instances ?? [];
  const isNeeded = isOpen && current >= 0;
  const { answer: found, problem } = useQuery(
    isNeeded ? () => prefixesAt(current, instance) : null,
    [isNeeded, current, instance],
    STILL_MS,
  );
  return html`<details class="large-prefixes" id="large-prefixes" onToggle=${(/** @type {Event} */ event) =>
    setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
    <summary>${t("large.prefixes")}</summary>
    ${
      instances.length > 1
        ? html`<${Select} aria-label=${t("large.prefixes.instance")} value=${instance}
            choices=${instances.map(({ name }, i) => [i, name])}
            commit=${(/** @type {string} */ text) => setInstance(Number(text))} />`
        : null
    }
    ${problem ? html`<p class="large-problem" role="alert">${problem}</p>` : null}
    ${isOpen && found ? html`<${branches} found=${found} observed=${observed} />` : null}
  </details>`;
}

/**
 * Panel of a long run. It shows components of other panels: `library` (list of recordings), `monitor` (reports of a
 * monitored server), `monitorTitle` (title of its run), `queries` (queries over the whole log), `branches` (largest
 * branches of the prefix cache).
 * @param {{
 *   library: Component | undefined, monitor: Component, monitorTitle: Component, queries: Component,
 *   branches: Component,
 * }} props
 */
export function Panel({ library, monitor, monitorTitle, queries, branches }) {
  const large = own.large.value;
  useEffect(() => {
    if (!large) return undefined;
    if (settings.detail.peek() === "library") settings.detail.value = "requests"; // close the list it was opened from
    return follow();
  }, [large]);
  const index = viewIndex.value;
  useEffect(() => show(index), [index]);
  if (!large) return null;
  const summary = overview.value;
  const showsLibrary = settings.detail.value === "library" && library !== undefined;
  const { model, engine, observed } = large.header;
  return html`<section class="large" id="region-large" aria-label=${t("large.title")} tabindex="0">
    <header class="large-head">
      <div>${
        observed
          ? html`<${monitorTitle} header=${large.header} />`
          : html`<h2>${t("large.of", { model: model.name })}</h2>`
      }</div>
      <button class="tool" id="large-library" aria-pressed=${showsLibrary}
        onClick=${() => (settings.detail.value = showsLibrary ? "requests" : "library")}>${t("detail.library")}</button>
      <p>${t(observed ? "large.size.observed" : "large.size", {
        records: grouped(summary?.num_surveyed ?? 0), // the other figures cover these records
        blocks: grouped(summary?.num_blocks ?? 0),
        size: Number(engine.block_size),
        sequences: grouped(summary?.num_sequences ?? 0),
        time: secondsText(summary?.seconds ?? 0),
      })}</p>
    </header>
    ${connection.value === "live" && !showsLibrary ? html`<${Live} />` : null}
    ${large.theater === ATTACHED && !showsLibrary ? html`<${Watched} />` : null}
    ${
      showsLibrary
        ? html`<${library} />`
        : html`<${Run} observed=${Boolean(observed)} ...${{ monitor, queries, branches }} />`
    }
  </section>`;
}

/** @param {{observed: boolean, monitor: Component, queries: Component, branches: Component}} props */
function Run({ observed, monitor, queries, branches }) {
  const prefixes = html`<${PrefixBranches} branches=${branches} observed=${observed} />`;
  return html`<${Progress} />
    ${
      bins.value
        ? html`<${MetricRows} /><${RecordOnView} />
            <div class="large-two"><div><${Pool} />${observed ? prefixes : null}</div>${
              observed ? html`<${monitor} />` : html`<${Sequences} />`
            }</div>${observed ? null : prefixes}<${queries} />`
        : null
    }`;
}

/** Button to follow the newest record of a live run. */
const Newest = () =>
  html`<button class="tool" id="large-newest" disabled=${following.value} onClick=${backToLive}>${t(
    "large.live.newest",
  )}</button>`;

const Watched = () =>
  html`<p class="large-live"><span>${t("large.live.watched", { n: grouped(own.numRecords.value) })}</span>
    <${Newest} /></p>`;

/** State of a live run's engine, with buttons to run, pause and restart. Other commands are not available here. */
function Live() {
  const isRunning = status.value?.mode === "running";
  return html`<p class="large-live" role="status">
    <span>${t(isRunning ? "large.live.runs" : "large.live.stands", { n: grouped(own.numRecords.value) })}</span>
    <button class="tool" id="large-engine"
      onClick=${() => (isRunning ? command("pause") : command("run", { speed: 0 }))}>${t(
        isRunning ? "large.live.pause" : "large.live.run",
      )}</button>
    <button class="tool" id="large-reset" title=${t("transport.reset_hint")} onClick=${reset}>${t(
      "transport.reset",
    )}</button>
    <${Newest} />
  </p>`;
}

/** Indexing progress of the log, or the problem that stops it. */
function Progress() {
  const summary = overview.value;
  if (problem.value) return html`<p class="large-problem" role="alert">${problem.value}</p>`;
  if (!summary || isRebuilt.value) return html`<p role="status">${t("large.reading")}</p>`;
  if (summary.problem) return html`<p class="large-problem" role="status">${summary.problem}</p>`;
  if (!isBehind.value) return null;
  const [n, all] = [grouped(summary.num_surveyed), grouped(summary.num_records)];
  return html`<p role="status">${t("large.read_so_far", { n, all })}
    <progress max=${summary.num_records} value=${summary.num_surveyed}></progress></p>`;
}

/** The shown record: its position, navigation, and its operations. */
function RecordOnView() {
  const now = shown.value;
  const current = now?.at ?? viewIndex.value;
  const isPlaying = playing.value !== 0;
  const playLabel = t(isPlaying ? "large.stop" : "large.play");
  const record = now?.record ?? null;
  return html`<div class="large-moment">
    <span class="large-walk" role="group" aria-label=${t("large.walk")}>
      <button class="tool" aria-label=${t("large.back")} title=${t("large.back")} onClick=${() => stepRecord(-1)}
        ><${Icon} name="back" /></button>
      <button class="tool" id="large-play" aria-pressed=${isPlaying} aria-label=${playLabel} title=${playLabel}
        onClick=${() => (isPlaying ? stop() : play(1))}><${Icon} name=${isPlaying ? "pause" : "play"} /></button>
      <button class="tool" aria-label=${t("large.on")} title=${t("large.on")} onClick=${() => stepRecord(1)}
        ><${Icon} name="forward" /></button>
    </span>
    <label>${t("large.record")} <${Numeric} id="large-record" value=${current} commit=${jumpTo}
      bounds=${{ min: -1, max: own.numRecords.value - 1, whole: true }} /></label>
    <p class="num" id="large-says">${
      record
        ? t(record.kind === "observed" ? "large.says.observed" : "large.says", {
            kind: t(`large.kind.${record.kind}`),
            step: grouped(record.step),
            at: secondsText(record.timing.at),
            ops: operationCounts(record.ops ?? []),
          })
        : t("large.before")
    }</p>
  </div>`;
}

/** @param {import("../../core/trace.js").Op[]} ops */
function operationCounts(ops) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { type } of ops) counts.set(type, (counts.get(type) ?? 0) + 1);
  if (!counts.size) return t("large.nothing");
  return [...counts].map(([type, n]) => `${operationName(type)} ${grouped(n)}`).join(" · ");
}
