// Every sequence of a long log, with its spans by time: a table of which only what is in sight is in the document.

import { useMemo, useState } from "../../../vendor/preact/hooks.js";
import { jumpTo } from "../../control/playback.js";
import { PREEMPTED, RUNNING, statusAt } from "../../core/survey.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { useLongList } from "../../kit/long_list.js";
import { useBox } from "../../kit/measure.js";
import { overview, place as placeNow, sequences } from "../../net/surveyed.js";
import { grouped, t } from "../../tell/words.js";

/** @typedef {import("../../core/survey.js").SequenceRow} SequenceRow */
/** @typedef {keyof typeof COLUMNS} Column */

const HIGH = 28; // px, a row
const NEAR = 1000; // records before and after the one that is looked at, in the bars
const NARROW = 560; // px: a phone

/** By column, what it sorts by. @satisfies {Record<string, (one: SequenceRow) => number>} */
const COLUMNS = {
  submitted_in: (/** @type {SequenceRow} */ one) => one.submitted_in,
  num_prompt_tokens: (/** @type {SequenceRow} */ one) => one.num_prompt_tokens,
  num_cached_tokens: (/** @type {SequenceRow} */ one) => one.num_cached_tokens,
  num_output_tokens: (/** @type {SequenceRow} */ one) => one.num_output_tokens,
  num_preemptions: (/** @type {SequenceRow} */ one) => one.num_preemptions,
  /** A fork has not. */
  waited: (/** @type {SequenceRow} */ one) =>
    one.admitted_in < 0 ? Infinity : Math.max(0, one.admitted_in - one.submitted_in),
};
const NAMES = /** @type {Column[]} */ (Object.keys(COLUMNS));

export function Sequences() {
  const [box, size] = useBox();
  const [sort, setSort] = useState({ column: /** @type {Column} */ ("submitted_in"), down: false });
  const [find, setFind] = useState("");
  const [here, setHere] = useState(true);
  const at = placeNow.value;
  const sorted = useMemo(() => {
    const key = COLUMNS[sort.column];
    const kept = sequences.value.filter((one) => one.request_id.includes(find));
    return kept.sort((a, b) => (sort.down ? key(b) - key(a) : key(a) - key(b)) || a.row - b.row);
  }, [sequences.value, sort, find]);
  const rows = here ? sorted.filter((one) => isHere(one, at)) : sorted;
  const list = useLongList({ box, height: size.height, count: rows.length, high: HIGH, head: HIGH });
  const isNarrow = size.width > 0 && size.width < NARROW;
  const names = isNarrow ? NAMES.filter((name) => name === "num_preemptions" || name === "waited") : NAMES;
  const scale = { from: Math.max(0, at - NEAR), to: Math.min(overview.value?.num_surveyed ?? 1, at + NEAR) };
  return html`<div class="large-sequences">
    <div class="large-choices">
      <strong>${t("large.sequences", { n: grouped(rows.length), all: grouped(sequences.value.length) })}</strong>
      <label><input type="checkbox" checked=${here} id="large-here"
        onChange=${(/** @type {Event} */ event) => {
          setHere(/** @type {HTMLInputElement} */ (event.currentTarget).checked);
          list.toTop();
        }} /> ${t("large.here")}</label>
      <input type="search" aria-label=${t("large.find")} placeholder=${t("large.find")} value=${find}
        onInput=${withValue((text) => (setFind(text), list.toTop()))} />
    </div>
    <div class="large-scroll" ref=${box} onScroll=${list.scrolled}>
      <table class="num" aria-rowcount=${rows.length + 1}>
        <thead><tr aria-rowindex="1"><th scope="col">${t("large.column.request")}</th>${names.map((name) => {
          const order = sort.column === name ? (sort.down ? "descending" : "ascending") : "none";
          return html`<th scope="col" key=${name} aria-sort=${order}><button title=${t(`large.column.${name}.why`)}
            onClick=${() => setSort({ column: name, down: order !== "descending" })}
            >${t(`large.column.${name}`)}${{ none: "", ascending: " ▴", descending: " ▾" }[order]}</button></th>`;
        })}<th scope="col" class="large-bars">${t("large.column.spans", {
          first: grouped(scale.from),
          last: grouped(scale.to),
        })}</th></tr></thead>
        <tbody data-arrows onKeyDown=${list.move}>
          <${Space} rows=${list.first} />
          ${rows.slice(list.first, list.last).map(
            (one, i) => html`<${Line} key=${one.row} ...${{ one, names, at, scale, place: list.first + i }}
              stop=${list.first + i === list.stop} />`,
          )}
          <${Space} rows=${rows.length - list.last} />
        </tbody>
      </table>
    </div>
  </div>`;
}

/** Whether it waits, runs or is preempted now. @param {SequenceRow} one @param {number} at */
const isHere = (one, at) => one.submitted_in <= at && (one.finished_in < 0 || one.finished_in > at);

/** The rows that are not in the document. @param {{rows: number}} props */
const Space = ({ rows }) =>
  rows > 0 ? html`<tr aria-hidden="true"><td style=${{ height: `${rows * HIGH}px` }}></td></tr>` : null;

/**
 * @param {{
 *   one: SequenceRow, names: Column[], at: number, scale: {from: number, to: number}, place: number, stop: boolean,
 * }} props
 */
function Line({ one, names, at, scale, place, stop }) {
  const status = statusAt(one, at);
  return html`<tr style=${{ height: `${HIGH}px` }} aria-rowindex=${place + 2}>
    <th scope="row"><button data-row=${place} tabindex=${stop ? 0 : -1} title=${t("large.to_submission")}
      onClick=${() => jumpTo(one.submitted_in)}>${one.request_id}</button></th>
    ${names.map((name) => html`<td key=${name}>${textOf(one, name)}</td>`)}
    <td class="large-bars"><${Spans} one=${one} at=${at} scale=${scale}
      label=${t(`large.status.${status ?? "to_come"}`)} /></td>
  </tr>`;
}

/** @param {SequenceRow} one @param {Column} name */
function textOf(one, name) {
  const value = COLUMNS[name](one);
  return Number.isFinite(value) ? grouped(value) : "–";
}

/**
 * What it did from record to record: waiting, running, preempted.
 *
 * @param {{one: SequenceRow, at: number, scale: {from: number, to: number}, label: string}} props
 */
function Spans({ one, at, scale: { from, to }, label }) {
  const share = (/** @type {number} */ record) => (100 * (record - from)) / Math.max(1, to - from);
  const seen = one.spans
    .map(({ kind, first, end }) => ({ kind, first: Math.max(from, first), end: Math.min(to, end < 0 ? to : end) }))
    .filter(({ first, end }) => end > first);
  return html`<span class="large-spans" role="img" aria-label=${label} title=${label}>
    ${seen.map(
      ({
        kind,
        first,
        end,
      }) => html`<i key=${first} class=${kind === RUNNING ? "runs" : kind === PREEMPTED ? "preempted" : "waits"}
        style=${{ left: `${share(first)}%`, width: `max(1px, ${share(end) - share(first)}%)` }}></i>`,
    )}<b style=${{ left: `${share(at)}%` }}></b></span>`;
}
