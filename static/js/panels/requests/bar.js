// Bar of a request's time: queued, prefill, decode, preempted. Clicking a segment shows its record.

import { jumpTo } from "../../control/playback.js";
import { instanceName } from "../../core/instances.js";
import { engineTime } from "../../core/metrics.js";
import { isShared } from "../../core/request_parts.js";
import { barOf } from "../../core/request_phases.js";
import { tracksOfParts } from "../../core/requests.js";
import { grouped, secondsText, t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { pointIn } from "../../kit/measure.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { paintRun } from "../../kit/track_run.js";
import { settings } from "../../state/settings.js";
import { log, numRecords, viewIndex } from "../../state/store.js";

/** @import {Segment} from "../../core/request_phases.js" */
/** @import {Row} from "../../core/requests.js" */

/**
 * @typedef {{from: number, to: number, own: boolean}} Scale seconds of engine time at the bar's ends; `own`: from the
 *   request's submission
 */

const MIN_MEAN_SHARE = 0.04; // of the run's duration
const PHASES = /** @type {const} */ (["waiting", "prefill", "receiving", "decode", "preempted"]);

/**
 * Return the time range of the bars of `rows`: from the first submission to the last end, or with `own` from 0 to the
 * longest duration.
 * @param {readonly Row[]} rows @param {boolean} own
 * @returns {Scale}
 */
export function scaleOf(rows, own) {
  let [from, to] = [own || !rows.length ? 0 : Infinity, 0];
  for (const { begin, until } of rows) {
    if (!own) from = Math.min(from, begin);
    to = Math.max(to, own ? until - begin : until);
  }
  return { from, to, own };
}

/** Whether bars on the run's clock would be too short to read, because the run is much longer than its requests. */
export function areShort(/** @type {readonly Row[]} */ rows) {
  const { from, to } = scaleOf(rows, false);
  const mean = rows.reduce((sum, { begin, until }) => sum + until - begin, 0) / rows.length;
  return mean < MIN_MEAN_SHARE * (to - from);
}

/** @param {{row: Row, scale: Scale, width: number, high: number}} props px */
export function Bar({ row, scale, width, high }) {
  const now = log.value;
  const tracks = now ? tracksOfParts(now, row.parts) : [];
  const from = scale.from + (scale.own ? row.begin : 0);
  const to = scale.to + (scale.own ? row.begin : 0);
  const ref = usePainter(
    () => [themeVersion.value, numRecords.value, viewIndex.value],
    (box) => {
      const canvas = box.querySelector("canvas");
      if (!canvas || !now) return;
      const c = prepare(canvas, width, high);
      const palette = colours();
      for (const { phase, x, width: wide } of barOf(now, tracks, from, to, width))
        paintRun(c, palette, { kind: phase, tokens: "" }, x, 2, Math.max(1, wide), {
          cell: Math.max(1, wide),
          row: high - 4,
        });
      const shown = ((engineTime(now, viewIndex.peek()) - from) / (to - from)) * width;
      if (!(shown >= 0 && shown <= width)) return;
      c.fillStyle = palette.focus;
      c.fillRect(Math.min(shown, width - 1.5), 0, 1.5, high);
    },
  );
  /** @param {MouseEvent} event */
  const segmentAt = (event) => {
    if (!now) return null;
    const { x } = pointIn(event, /** @type {HTMLElement} */ (event.currentTarget));
    return barOf(now, tracks, from, to, width).findLast((segment) => segment.x <= x) ?? null;
  };
  /** @param {PointerEvent} event */
  const onPoint = (event) => {
    const segment = segmentAt(event);
    if (segment) tipAt(event.clientX, event.clientY, [segmentText(segment)]);
  };
  /** @param {MouseEvent} event */
  const open = (event) => {
    const segment = segmentAt(event);
    if (!segment) return;
    event.stopPropagation();
    settings.seq.value = segment.seq;
    jumpTo(segment.from);
  };
  return html`<span class="request-bar" ref=${ref} style=${{ width: `${width}px`, height: `${high}px` }}
    onPointerMove=${onPoint} onPointerLeave=${hideTip} onClick=${open}><canvas aria-hidden="true"></canvas></span>`;
}

/** @param {Segment} segment */
function segmentText({ phase, from, to, begin, end, seq }) {
  const text = t("requests.segment", {
    phase: t(`track.${phase}`),
    seconds: secondsText(end - begin),
    from: grouped(from + 1),
    to: grouped(to + 1),
  });
  const now = log.peek();
  const at = now ? instanceName(now.header, now.tail.sequences.get(seq)?.instance ?? 0) : "";
  return at ? t("requests.segment.at", { instance: at, text }) : text;
}

/** Legend of the segment kinds. */
export const Legend = () =>
  html`<ul class="bar-legend">${PHASES.filter((kind) => kind !== "receiving" || (log.value && isShared(log.value))).map(
    (kind) => html`<${Key} key=${kind} kind=${kind} />`,
  )}</ul>`;

/** @param {{kind: string}} props */
function Key({ kind }) {
  const ref = usePainter(
    () => [themeVersion.value],
    (box) => {
      const canvas = box.querySelector("canvas");
      if (canvas) paintRun(prepare(canvas, 16, 14), colours(), { kind, tokens: "" }, 0, -1, 16, { cell: 16, row: 16 });
    },
  );
  return html`<li><span class="tracks-key" ref=${ref}><canvas aria-hidden="true"></canvas></span>
    ${t(`track.${kind}`)}</li>`;
}
