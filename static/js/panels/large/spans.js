// Bar of a request's status over records: waiting, running, preempted. Clicking a span shows the record where it began.

import { PREEMPTED, RUNNING } from "../../core/log_index.js";
import { grouped, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";

/** @import {SequenceRow} from "../../core/log_index.js" */

/** @typedef {{from: number, to: number, own: boolean}} Scale records at the ends of a bar; `own`: from submission */

const NEAR = 1000; // records shown before and after the shown one

/** @param {number} kind of a span */
export const kindOf = (kind) => (kind === RUNNING ? "running" : kind === PREEMPTED ? "preempted" : "waiting");

/**
 * Return the range of the bars: records around `at`, or, with `own`, from 0 to the duration of the longest request.
 * @param {readonly SequenceRow[]} rows
 * @param {boolean} own
 * @param {number} at
 * @param {number} count number of known records
 * @returns {Scale}
 */
export function scaleOf(rows, own, at, count) {
  if (!own) return { from: Math.max(0, at - NEAR), to: Math.min(count, at + NEAR), own };
  let to = 1;
  for (const { submitted_in, finished_in } of rows)
    to = Math.max(to, (finished_in < 0 ? count : finished_in) - submitted_in);
  return { from: 0, to, own };
}

/** @param {{one: SequenceRow, at: number, scale: Scale, go: (record: number) => void}} props */
export function Spans({ one, at, scale, go }) {
  const since = scale.own ? one.submitted_in : 0;
  const [from, to] = [scale.from + since, scale.to + since];
  /** @param {number} record */
  const share = (record) => (100 * (record - from)) / Math.max(1, to - from);
  const seen = one.spans
    .map((span) => ({ ...span, left: Math.max(from, span.first), right: span.end < 0 ? to : Math.min(to, span.end) }))
    .filter(({ left, right }) => right > left);
  return html`<span class="large-spans">
    ${seen.map(
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
