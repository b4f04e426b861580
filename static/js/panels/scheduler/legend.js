// Legend of the scheduler's tracks.

import { tracksOf } from "../../core/tracks.js";
import { t } from "../../i18n/words.js";
import { prepare, usePainter } from "../../kit/canvas.js";
import { colours, themeVersion } from "../../kit/colour.js";
import { html } from "../../kit/html.js";
import { paintRun } from "../../kit/track_run.js";
import { log, numRecords } from "../../state/store.js";
import { paintMark } from "./marks.js";

const KINDS = ["waiting", "receiving", "prefill", "again", "decode", "idle", "preempted", "swapped", "holding"];

const MARKS = ["submit", "fork", "hit", "load", "arrive", "defer", "preempt", "finish", "abort"];

/** Kinds and marks that occur in this run, drawn as on the tracks. */
export function Legend() {
  const tracks = log.value && numRecords.value ? tracksOf(log.value) : null;
  const present = new Set(["waiting", "prefill", "decode"]);
  for (const track of tracks?.tracks ?? []) {
    for (const run of track.runs) present.add(run.again ? "again" : run.kind);
    for (const { mark } of track.marks) present.add(mark);
  }
  return html`<ul class="tracks-legend" tabindex="0">
    ${[...KINDS, ...MARKS]
      .filter((kind) => present.has(kind) && !(kind === "preempt"))
      .map(
        (kind) => html`<li
      key=${kind}><${Key} kind=${kind} />${t(`${MARKS.includes(kind) ? "tracks" : "track"}.${kind}`)}</li>`,
      )}
  </ul>`;
}

/** @param {{kind: string}} props */
function Key({ kind }) {
  const ref = usePainter(
    () => [themeVersion.value],
    (box) => {
      const canvas = box.querySelector("canvas");
      if (!canvas) return;
      const c = prepare(canvas, 16, 14);
      if (MARKS.includes(kind)) paintMark(c, colours(), kind, 8, 0, 14);
      else
        paintRun(
          c,
          colours(),
          {
            kind: kind === "again" ? "prefill" : kind,
            tokens: kind === "again" ? 1 : "",
            again: kind === "again" ? 1 : 0,
          },
          0,
          -1,
          16,
          { cell: 8, row: 16 },
        );
    },
  );
  return html`<span class="tracks-key" ref=${ref}><canvas aria-hidden="true"></canvas></span>`;
}
