// The timeline: a native range input over a painted line with event marks. Painting is bounded by its width, not by the
// length of the log: adjacent marks merge into bars.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { eventKind } from "../../control/playback.js";
import { clusters, KINDS, marksIn, tokensOf } from "../../core/events.js";
import { grouped, t } from "../../i18n/words.js";
import { registerAnchor } from "../../kit/anchors.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { withValue } from "../../kit/inputs.js";
import { hideTip, tipAt } from "../../kit/tooltip.js";
import { goTo, log, numRecords, shownSeq, viewIndex } from "../../state/store.js";
import { sentencesAt } from "./sentence.js";

const INSET = 8; // px; half the width of the range input's thumb
const SIGN_SIZE = 8; // px
const LEVELS = [6, 15, 35]; // y of each level's centre in px
const LINE_Y = 25; // px
const HEIGHT = 40; // px

export function Scrubber() {
  const ref = usePainter(
    () => [numRecords.value, viewIndex.value, themeVersion.value, eventKind.value, shownSeq.value],
    (box, { width }) => paint(box.querySelector("canvas"), width),
  );
  useEffect(
    () =>
      registerAnchor("record", (index) => {
        const [box, all] = [ref.current?.getBoundingClientRect(), numRecords.peek()];
        if (!box || index >= all) return null;
        return { x: box.left + xOf(index, all, box.width), y: box.top, width: 0, height: box.height };
      }),
    [],
  );
  const count = numRecords.value;
  return html`<div class="scrubber" ref=${ref} onPointerMove=${preview} onPointerLeave=${hideTip}>
    <canvas aria-hidden="true"></canvas>
    <input
      id="scrubber"
      type="range"
      min="-1"
      max=${Math.max(0, count - 1)}
      step="1"
      value=${viewIndex.value}
      disabled=${count === 0}
      aria-label=${t("transport.scrubber")}
      aria-valuetext=${t("transport.position", { i: viewIndex.value + 1, n: count })}
      onInput=${withValue((value) => goTo(Number(value)))}
    />
  </div>`;
}

/** @type {(index: number, count: number, width: number) => number} */
const xOf = (index, count, width) => INSET + ((index + 1) / Math.max(1, count)) * (width - 2 * INSET);

/** Preview of the record under the pointer. @param {PointerEvent} event */
function preview(event) {
  const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
  const count = numRecords.value;
  if (!count || event.pointerType === "touch") return hideTip();
  const share = (event.clientX - box.left - INSET) / (box.width - 2 * INSET);
  const index = Math.max(-1, Math.min(count - 1, Math.round(share * count) - 1));
  const record = log.value?.records[index];
  const position = t("transport.position", { i: grouped(index + 1), n: grouped(count) });
  const step = record?.step ? ` · ${t("transport.step_count", { n: record.step })}` : "";
  const head = index < 0 ? t("transport.before") : `${position}${step}`;
  tipAt(box.left + xOf(index, count, box.width), box.top, [
    html`<b class="num">${head}</b>`,
    sentencesAt(index, null)[0] ?? "",
  ]);
}

/** @param {HTMLCanvasElement | null} canvas @param {number} width */
function paint(canvas, width) {
  if (!canvas) return;
  const c = prepare(canvas, width, HEIGHT);
  const palette = colours();
  const count = numRecords.value;
  c.fillStyle = palette["line-2"];
  c.fillRect(INSET, LINE_Y - 1, width - 2 * INSET, 2);
  if (!count || !log.value) return;
  /** @param {number} index */
  const x = (index) => xOf(index, count, width);
  c.fillStyle = palette["ink-2"];
  c.fillRect(INSET, LINE_Y - 1, x(viewIndex.value) - INSET, 2);
  paintInstances(c, palette, log.value, count, width);
  const chosen = eventKind.value;
  const marks = marksIn(log.value);
  for (const kind of KINDS) {
    c.globalAlpha = chosen === "any" || chosen === kind ? 1 : 0.25;
    const runs = /** @type {[number, number][]} */ (clusters(marks.get(kind) ?? [], x, SIGN_SIZE));
    paintSigns(c, SIGNS[kind], palette, runs);
  }
  c.globalAlpha = 1;
  if (chosen === "token") {
    c.fillStyle = palette.generated;
    for (const [from, to] of clusters(tokensOf(log.value, shownSeq.value), x, 3))
      c.fillRect(from - 1, LINE_Y - 4, Math.max(2, to - from), 8);
  }
  c.fillStyle = palette.ink;
  c.beginPath();
  c.arc(x(viewIndex.value), LINE_Y, 6, 0, 2 * Math.PI);
  c.fill();
}

/**
 * Paint each record's instance below the line, in the colour of its role, if there are several instances.
 * @param {CanvasRenderingContext2D} c @param {ReturnType<typeof colours>} palette
 * @param {import("../../core/log.js").TraceLog} run @param {number} count @param {number} width
 */
function paintInstances(c, palette, { header: { instances = [] }, records }, count, width) {
  if (instances.length < 2) return;
  const hues = { prefill: palette.prompt, decode: palette.generated, mixed: palette["ink-3"] };
  const step = Math.max(2, (width - 2 * INSET) / count);
  for (let x = INSET; x < width - INSET - 1; x += step) {
    const index = Math.floor(((x + step / 2 - INSET) / (width - 2 * INSET)) * count);
    const instance = records[index]?.instance ?? 0;
    c.fillStyle = hues[instances[instance]?.role ?? "mixed"];
    c.fillRect(x, LINE_Y + 2, step > 4 ? step - 1 : step, 2);
  }
}

/**
 * Paint a sign at the beginning of each run of events, and a bar to its end.
 * @param {CanvasRenderingContext2D} c @param {EventSign} sign @param {ReturnType<typeof colours>} palette
 * @param {[number, number][]} runs
 */
function paintSigns(c, sign, palette, runs) {
  const path = new Path2D(sign.path);
  const y = LEVELS[sign.level];
  c.strokeStyle = c.fillStyle = palette[sign.colour];
  c.lineWidth = 1.25;
  for (const [from, to] of runs) {
    if (to > from) c.fillRect(from, y - 0.75, to - from + SIGN_SIZE / 2, 1.5);
    c.save();
    c.translate(from, y);
    if (sign.filled) c.fill(path);
    else c.stroke(path);
    c.restore();
  }
}

/**
 * `path`: in a box from -4 to 4; `colour`: palette name; `level`: above (0, 1) or below (2) the line.
 *
 * @typedef {"prompt" | "generated" | "fault" | "k" | "v" | "ink-2"} SignColour
 * @typedef {{path: string, colour: SignColour, filled: boolean, level: 0 | 1 | 2}} EventSign
 */

/** @type {Record<string, EventSign>} by kind of event */
export const SIGNS = {
  submit: { path: "M-4 -3H4L0 3Z", colour: "prompt", filled: true, level: 0 },
  prefill: { path: "M-1.5 -4H1.5V4H-1.5Z", colour: "prompt", filled: true, level: 1 },
  hit: { path: "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0 -3 0Z", colour: "generated", filled: false, level: 1 },
  fork: { path: "M0 4V1L-3 -4M0 1L3 -4", colour: "k", filled: false, level: 0 },
  copy: { path: "M-4 -1.5H1.5V4H-4ZM-1.5 -1.5V-4H4V1.5H1.5", colour: "k", filled: false, level: 2 },
  preempt: { path: "M-4 3H4L0 -4Z", colour: "fault", filled: true, level: 0 },
  swap: { path: "M-4 -2H4M1.5 -4L4 -2L1.5 0M4 2H-4M-1.5 0L-4 2L-1.5 4", colour: "v", filled: false, level: 2 },
  load: { path: "M0 4V-3M-3 0L0 -4L3 0M-4 4H4", colour: "v", filled: false, level: 2 },
  evict: { path: "M-3 -3L3 3M3 -3L-3 3", colour: "ink-2", filled: false, level: 2 },
  finish: { path: "M-3 -3H3V3H-3Z", colour: "generated", filled: true, level: 0 },
};
