// Table of all sequences of a long log with their spans over time. Only the visible rows are in the document.

import { useLayoutEffect, useMemo, useRef, useState } from "../../../vendor/preact/hooks.js";
import { jumpTo } from "../../control/playback.js";
import { PREEMPTED, RUNNING, statusAt } from "../../core/log_index.js";
import { foundRows } from "../../core/requests.js";
import { grouped, secondsText, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { useLongList } from "../../kit/long_list.js";
import { useBox } from "../../kit/measure.js";
import { noneText, onlyRule, orderOf, RequestChoices, SortHead, Space } from "../../kit/request_table.js";
import { overview, place as placeNow, sequences } from "../../net/log_index.js";
import { settings } from "../../state/settings.js";
import { layoutFor, NAMES, TEXT_COLUMNS } from "./columns.js";

/** @import {SequenceRow} from "../../core/log_index.js" */
/** @import {Column} from "./columns.js" */

/** @param {{one: SequenceRow, at: number}} props */
function Chosen({ one, at }) {
  return html`<section class="large-chosen num" aria-label=${t("large.chosen", { request: one.request })}>
    <p><strong>${one.request}</strong> ${figuresText(one)}</p>
    <p class="large-turns">${eventsOf(one).map(
      ({ record, text }) => html`<button key=${`${record} ${text}`} class="link"
        aria-current=${record === at ? "step" : undefined}
        onClick=${() => jumpTo(record)}>${text} ${grouped(record)}</button>`,
    )}</p>
  </section>`;
}

/** @param {SequenceRow} one */
const figuresText = (one) =>
  [
    ...(one.client === null ? [] : [t("large.chosen.client", { client: one.client })]),
    t("large.chosen.tokens", { prompt: grouped(one.prompt), hit: grouped(one.hit ?? 0), output: grouped(one.output) }),
    ...(one.waited === null ? [] : [t("large.chosen.waited", { n: grouped(one.waited), count: one.waited })]),
    ...(one.ttft === null ? [] : [`TTFT ${secondsText(one.ttft)}`]),
    ...(one.tpot === null ? [] : [`TPOT ${secondsText(one.tpot)}`]),
    ...(one.preempted ? [t("large.chosen.preempted", { n: one.preempted })] : []),
    ...(one.missed === null ? [] : [t("large.chosen.missed", { time: secondsText(one.missed) })]),
  ].join(" · ");

/**
 * Return the events of a sequence in order: the start of each of its spans, and its end.
 * @param {SequenceRow} one
 */
function eventsOf(one) {
  const lost = one.lost_in < 0 ? [] : [{ record: one.lost_in, text: t("large.chosen.lost") }];
  const events = one.spans.map(({ kind, first }) => ({ record: first, text: t(`large.status.${kindOf(kind)}`) }));
  const end = one.finished_in < 0 ? [] : [{ record: one.finished_in, text: endText(one) }];
  return [...lost, ...events, ...end];
}

/** Text of a sequence's end. @param {SequenceRow} one */
const endText = (one) => t("large.chosen.end", { how: t(`timeline.end.${one.finish_reason}`) });

const ROW_HEIGHT = 28; // px
const TOUCH_ROW_HEIGHT = 44; // px
const PHONE_WIDTH = 560; // px
const STATUSES = ["running", "preempted", "waiting", "finished", null]; // null: not submitted yet

export function Sequences() {
  const [box, size] = useBox();
  /** Whether only unfinished sequences are listed. Null means yes unless a filter is set. */
  const [unfinishedOnly, setUnfinished] = useState(/** @type {boolean | null} */ (null));
  /** Whether bars start at the request's submission. Null means yes if finished sequences are listed too. */
  const [fromSubmission, setFromSubmission] = useState(/** @type {boolean | null} */ (null));
  const [find, sort] = [settings.find.value ?? "", settings.sort.value];
  const [only, client] = [settings.only.value, settings.client.value];
  const [at, all] = [placeNow.value, sequences.value];
  const sorted = useSorted(all, at);
  const hidesFinished = unfinishedOnly ?? !(find || only || client);
  const rows = hidesFinished ? sorted.filter((one) => isUnfinished(one, at)) : sorted;
  const rowHeight = size.width > 0 && size.width < PHONE_WIDTH ? TOUCH_ROW_HEIGHT : ROW_HEIGHT;
  const list = useLongList({ box, height: size.height, count: rows.length, high: rowHeight, head: rowHeight });
  const tableWidth = size.width || innerWidth;
  const { columns, bar } = useMemo(() => layoutFor(tableWidth, all, only), [tableWidth, all, only]);
  const count = overview.value?.num_surveyed ?? 1;
  const isRelative = fromSubmission ?? !hidesFinished;
  const longest = useMemo(() => scaleOf(isRelative ? sorted : [], true, at, count), [isRelative, sorted, count]);
  const scale = isRelative ? longest : scaleOf([], false, at, count);
  const range = { first: grouped(scale.from), last: grouped(scale.to) };
  const chosen = settings.seq.value === null ? undefined : all.find(({ seq }) => seq === settings.seq.value);
  const isNavigating = useRef(false);
  useLayoutEffect(list.toTop, [find, sort, only, client, hidesFinished]); // scroll to the top when the rows change
  useLayoutEffect(() => {
    const row = isNavigating.current ? rows.findIndex(({ seq }) => seq === settings.seq.peek()) : -1;
    isNavigating.current = false;
    if (row >= 0) list.goTo(row); // the row's position changes with the record
  }, [at, settings.seq.value]);
  /** @param {SequenceRow} one @param {number} record */
  const openAt = (one, record) => {
    isNavigating.current = true;
    settings.seq.value = one.seq;
    jumpTo(record);
  };
  /** @param {SequenceRow} one @param {KeyboardEvent} event */
  const onKey = (one, event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    event.stopPropagation();
    const events = eventsOf(one).map(({ record }) => record);
    const to = event.key === "ArrowRight" ? events.find((one) => one > at) : events.findLast((one) => one < at);
    if (to !== undefined) openAt(one, to);
  };
  return html`<div class="large-sequences" id="large-sequences">
    <div class="large-choices">
      <strong role="status">${t("large.sequences", { n: grouped(rows.length), all: grouped(all.length) })}</strong>
      <label><input type="checkbox" checked=${hidesFinished} id="large-here"
        onChange=${(/** @type {Event} */ event) =>
          setUnfinished(/** @type {HTMLInputElement} */ (event.currentTarget).checked)} /> ${t("large.here")}</label>
      <input type="search" id="large-find" aria-label=${t("large.find")} placeholder=${t("large.find")} value=${find}
        onInput=${withValue((text) => (settings.find.value = text || null))} />
      <${RequestChoices} rows=${all} />
    </div>
    ${only ? html`<p class="hint">${onlyRule()}</p>` : null}
    <div class="large-scroll" ref=${box} onScroll=${list.scrolled}>
      <table class="num" aria-label=${t("large.title.requests")} aria-rowcount=${rows.length + 1}>
        <thead><tr aria-rowindex="1">${columns.map((column) => html`<${Head} key=${column.name} ...${column} />`)}
          <th scope="col" class="large-bars" style=${{ width: `${bar}px` }}><button aria-pressed=${isRelative}
            id="large-own" title=${t("large.own.why")} onClick=${() => setFromSubmission(!isRelative)}
            aria-label=${isRelative ? undefined : t("large.column.spans.label", range)}>${t(
              isRelative ? "large.column.own" : "large.column.spans",
              range,
            )}</button></th></tr></thead>
        <tbody data-arrows onKeyDown=${list.move}>
          <${Space} rows=${list.first} high=${rowHeight} />
          ${rows.slice(list.first, list.last).map(
            (one, i) => html`<${RequestRow} key=${one.row} ...${{ one, columns, at, scale, rowHeight, openAt, onKey }}
              place=${list.first + i} stop=${list.first + i === list.stop} />`,
          )}
          <${Space} rows=${rows.length - list.last} high=${rowHeight} />
        </tbody>
      </table>
      ${rows.length ? null : html`<p class="hint">${hidesFinished ? emptyText(sorted.length) : noneText()}</p>`}
    </div>
    ${chosen ? html`<${Chosen} one=${chosen} at=${at} />` : null}
  </div>`;
}

/**
 * Filter and sort the rows. The order depends on the shown record only when sorted by status.
 * @param {readonly SequenceRow[]} all @param {number} at
 */
function useSorted(all, at) {
  const { find, sort, only, client } = settings;
  const { column, down } = orderOf(sort.value, NAMES);
  const rows = useMemo(
    () =>
      column === "status" ? all.map((one) => ({ ...one, status: STATUSES.indexOf(statusAt(one, at)) })) : [...all],
    [all, column === "status" ? at : column === "seq"],
  );
  return useMemo(
    () =>
      foundRows(rows, find.value ?? "", /** @type {"seq"} one of its names */ (column), down, {
        only: only.value,
        client: client.value,
      }),
    [rows, find.value, column, down, only.value, client.value],
  );
}

/** @param {number} count number of rows hidden by the filter */
const emptyText = (count) => (count ? t("large.none.here", { n: grouped(count), count }) : noneText());

/** Whether a sequence is waiting, running or preempted at record `at`. @param {SequenceRow} one @param {number} at */
const isUnfinished = (one, at) => one.submitted_in <= at && (one.finished_in < 0 || one.finished_in > at);

/** @param {Column} props */
const Head = ({ name, width }) =>
  html`<${SortHead} ...${{ name, names: NAMES, lettered: TEXT_COLUMNS }} width=${name === "request" ? null : width}
    text=${t(`large.column.${name}`)} about=${{ title: t(`large.column.${name}.why`) }} />`;

/**
 * @param {{
 *   one: SequenceRow, columns: Column[], at: number, scale: Scale, place: number, stop: boolean,
 *   rowHeight: number, openAt: (one: SequenceRow, record: number) => void,
 *   onKey: (one: SequenceRow, event: KeyboardEvent) => void,
 * }} props
 */
function RequestRow({ one, columns, at, scale, place, stop, rowHeight, openAt, onKey }) {
  const isChosen = settings.seq.value === one.seq;
  const open = () => openAt(one, one.submitted_in);
  return html`<tr style=${{ height: `${rowHeight}px` }} aria-rowindex=${place + 2} class=${isChosen ? "shown" : ""}
    data-seq=${one.seq} onClick=${open}>
    ${columns.map(({ name, text }) =>
      name === "request"
        ? html`<th key=${name} scope="row"><button data-row=${place} tabindex=${stop ? 0 : -1}
            title=${t("large.to_submission")} onKeyDown=${(/** @type {KeyboardEvent} */ event) => onKey(one, event)}
            >${one.request}</button></th>`
        : html`<td key=${name} data-column=${name}>${text ? text(one) : statusText(one, at)}</td>`,
    )}
    <td class="large-bars"><${Spans} one=${one} at=${at} scale=${scale}
      go=${(/** @type {number} */ record) => openAt(one, record)} /></td>
  </tr>`;
}

/** Text of a sequence's status at record `at`, or of its end. @param {SequenceRow} one @param {number} at */
function statusText(one, at) {
  const status = statusAt(one, at);
  return status === "finished"
    ? t(`timeline.end.${one.finish_reason || status}`)
    : t(`large.status.${status ?? "to_come"}`);
}

/** @typedef {{from: number, to: number, own: boolean}} Scale range of records; `own`: from the submission */

const NEIGHBOURHOOD = 1000; // records shown before and after the shown one

/** @param {number} kind of a span */
const kindOf = (kind) => (kind === RUNNING ? "running" : kind === PREEMPTED ? "preempted" : "waiting");

/**
 * Return the range of the bars: records around `at`, or, with `own`, from 0 to the duration of the longest request.
 * @param {readonly SequenceRow[]} rows @param {boolean} own @param {number} at
 * @param {number} count number of known records
 * @returns {Scale}
 */
function scaleOf(rows, own, at, count) {
  if (!own) return { from: Math.max(0, at - NEIGHBOURHOOD), to: Math.min(count, at + NEIGHBOURHOOD), own };
  let to = 1;
  for (const { submitted_in, finished_in } of rows)
    to = Math.max(to, (finished_in < 0 ? count : finished_in) - submitted_in);
  return { from: 0, to, own };
}

/** @param {{one: SequenceRow, at: number, scale: Scale, go: (record: number) => void}} props */
function Spans({ one, at, scale, go }) {
  const since = scale.own ? one.submitted_in : 0;
  const [from, to] = [scale.from + since, scale.to + since];
  /** @param {number} record */
  const share = (record) => (100 * (record - from)) / Math.max(1, to - from);
  const visible = one.spans
    .map((span) => ({ ...span, left: Math.max(from, span.first), right: span.end < 0 ? to : Math.min(to, span.end) }))
    .filter(({ left, right }) => right > left);
  return html`<span class="large-spans">
    ${visible.map(
      (span) => html`<i key=${span.first} class=${kindOf(span.kind)} title=${spanText(span)}
        style=${{ left: `${share(span.left)}%`, width: `max(1px, ${share(span.right) - share(span.left)}%)` }}
        onClick=${(/** @type {Event} */ event) => {
          event.stopPropagation();
          go(span.first);
        }}></i>`,
    )}${at >= from && at <= to ? html`<b style=${{ left: `min(${share(at)}%, 100% - 2px)` }}></b>` : null}</span>`;
}

/** @param {{kind: number, first: number, end: number}} span */
const spanText = ({ kind, first, end }) =>
  t(end < 0 ? "large.span.lasts" : "large.span", {
    what: t(`large.status.${kindOf(kind)}`),
    first: grouped(first),
    end: grouped(end),
  });
