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
function Prefixes({ branches, observed }) {
  const [isOpen, setOpen] = useState(false);
  const [instance, setInstance] = useState(0);
  const at = place.value;
  const instances = own.large.value?.header.instances ?? [];
  const isWanted = isOpen && at >= 0;
  const { answer: found, problem } = useQuery(
    isWanted ? () => prefixesAt(at, instance) : null,
    [isWanted, at, instance],
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
 * Panel of a long run. Components of other panels: `library` (list of recordings), `monitor` (reports of a monitored
 * server), `monitorTitle` (title of its run), `queries` (queries over the whole log), `branches` (largest branches of
 * the prefix cache).
 * @param {{
 *   library: Component | undefined, monitor: Component, monitorTitle: Component, queries: Component,
 *   branches: Component,
 * }} props
 */
export function Panel({ library, monitor, monitorTitle, queries, branches }) {
  const large = own.large.value;
  useEffect(() => {
    if (!large) return undefined;
    if (settings.detail.peek() === "library") settings.detail.value = "requests"; // leave the library
    return follow();
  }, [large]);
  const index = viewIndex.value;
  useEffect(() => show(index), [index]);
  if (!large) return null;
  const known = overview.value;
  const listed = settings.detail.value === "library" && library !== undefined;
  const { model, engine, observed } = large.header;
  return html`<section class="large" id="region-large" aria-label=${t("large.title")} tabindex="0">
    <header class="large-head">
      <div>${
        observed
          ? html`<${monitorTitle} header=${large.header} />`
          : html`<h2>${t("large.of", { model: model.name })}</h2>`
      }</div>
      <button class="tool" id="large-library" aria-pressed=${listed}
        onClick=${() => (settings.detail.value = listed ? "requests" : "library")}>${t("detail.library")}</button>
      <p>${t(observed ? "large.size.observed" : "large.size", {
        records: grouped(known?.num_surveyed ?? 0), // those that the other figures are of
        blocks: grouped(known?.num_blocks ?? 0),
        size: Number(engine.block_size),
        sequences: grouped(known?.num_sequences ?? 0),
        time: secondsText(known?.seconds ?? 0),
      })}</p>
    </header>
    ${connection.value === "live" && !listed ? html`<${Live} />` : null}
    ${large.theater === ATTACHED && !listed ? html`<${Watched} />` : null}
    ${
      listed
        ? html`<${library} />`
        : html`<${Run} observed=${Boolean(observed)} ...${{ monitor, queries, branches }} />`
    }
  </section>`;
}

/** @param {{observed: boolean, monitor: Component, queries: Component, branches: Component}} props */
function Run({ observed, monitor, queries, branches }) {
  const prefixes = html`<${Prefixes} branches=${branches} observed=${observed} />`;
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

/** Button that follows the newest record of a live run. */
const Newest = () =>
  html`<button class="tool" id="large-newest" disabled=${following.value} onClick=${backToLive}>${t(
    "large.live.newest",
  )}</button>`;

const Watched = () =>
  html`<p class="large-live"><span>${t("large.live.watched", { n: grouped(own.numRecords.value) })}</span>
    <${Newest} /></p>`;

/** State of a live run's engine, with buttons to run, pause and restart. Other commands are not available here. */
function Live() {
  const runs = status.value?.mode === "running";
  return html`<p class="large-live" role="status">
    <span>${t(runs ? "large.live.runs" : "large.live.stands", { n: grouped(own.numRecords.value) })}</span>
    <button class="tool" id="large-engine" onClick=${() => (runs ? command("pause") : command("run", { speed: 0 }))}
      >${t(runs ? "large.live.pause" : "large.live.run")}</button>
    <button class="tool" id="large-reset" title=${t("transport.reset_hint")} onClick=${reset}>${t(
      "transport.reset",
    )}</button>
    <${Newest} />
  </p>`;
}

/** Indexing progress of the log, or the problem that stops it. */
function Progress() {
  const known = overview.value;
  if (problem.value) return html`<p class="large-problem" role="alert">${problem.value}</p>`;
  if (!known || isRebuilt.value) return html`<p role="status">${t("large.reading")}</p>`;
  if (known.problem) return html`<p class="large-problem" role="status">${known.problem}</p>`;
  if (!isBehind.value) return null;
  const [n, all] = [grouped(known.num_surveyed), grouped(known.num_records)];
  return html`<p role="status">${t("large.read_so_far", { n, all })}
    <progress max=${known.num_records} value=${known.num_surveyed}></progress></p>`;
}

/** The shown record: its position, navigation, and its operations. */
function RecordOnView() {
  const now = shown.value;
  const at = now?.at ?? viewIndex.value;
  const moves = playing.value !== 0;
  const says = now?.record ?? null;
  return html`<div class="large-moment">
    <span class="large-walk" role="group" aria-label=${t("large.walk")}>
      <button class="tool" aria-label=${t("large.back")} title=${t("large.back")} onClick=${() => stepRecord(-1)}
        ><${Icon} name="back" /></button>
      <button class="tool" id="large-play" aria-pressed=${moves} aria-label=${t(moves ? "large.stop" : "large.play")}
        title=${t(moves ? "large.stop" : "large.play")} onClick=${() => (moves ? stop() : play(1))}
        ><${Icon} name=${moves ? "pause" : "play"} /></button>
      <button class="tool" aria-label=${t("large.on")} title=${t("large.on")} onClick=${() => stepRecord(1)}
        ><${Icon} name="forward" /></button>
    </span>
    <label>${t("large.record")} <${Numeric} id="large-record" value=${at} commit=${jumpTo}
      bounds=${{ min: -1, max: own.numRecords.value - 1, whole: true }} /></label>
    <p class="num" id="large-says">${
      says
        ? t(says.kind === "observed" ? "large.says.observed" : "large.says", {
            kind: t(`large.kind.${says.kind}`),
            step: grouped(says.step),
            at: secondsText(says.timing.at),
            ops: counted(says.ops ?? []),
          })
        : t("large.before")
    }</p>
  </div>`;
}

/** @param {import("../../core/trace.js").Op[]} ops */
function counted(ops) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { type } of ops) counts.set(type, (counts.get(type) ?? 0) + 1);
  if (!counts.size) return t("large.nothing");
  return [...counts].map(([type, n]) => `${operationName(type)} ${grouped(n)}`).join(" · ");
}
