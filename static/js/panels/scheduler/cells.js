// Tooltip text of a cell of the tracks, and its click action.

import { instanceName } from "../../core/instances.js";
import { isShared } from "../../core/request_parts.js";
import { cellAt, marksIn } from "../../core/tracks.js";
import { t } from "../../i18n/words.js";
import { settings } from "../../state/settings.js";
import { goTo, log, select } from "../../state/store.js";
import { GUTTER, INSTANCE_WIDTH } from "./geometry.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Tracks} from "./paint.js" */

/** @param {TraceLog} log */
export const limitsOf = ({ header }) => ({
  tokens: Number(header.engine.max_num_batched_tokens),
  seqs: Number(header.engine.max_num_seqs),
});

/** Width of the fixed left column. @param {TraceLog | null} log */
export const gutterOf = (log) => GUTTER + (log && isShared(log) ? INSTANCE_WIDTH : 0);

/**
 * Choose a sequence by its name, a record by a cell, or an operation by its mark.
 * @param {{record: number | null, track: number | null}} at
 * @param {Tracks} tracks
 */
export function selectCell({ record, track: row }, tracks) {
  const track = row === null ? undefined : tracks.tracks[row];
  if (record === null) return track && (settings.seq.value = track.seq_id);
  goTo(record);
  const mark = track && marksIn(track, record, record).at(-1);
  if (mark) select({ record, op: mark.at });
}

/**
 * Describe a cell: position, work of the sequence, events, and budgets of the step.
 * @param {Tracks} tracks @param {number | null} row @param {number} record
 */
export function describe(tracks, row, record) {
  const column = tracks.columns[record];
  const lines = [];
  const track = row === null ? undefined : tracks.tracks[row];
  if (track) {
    const name = t("sequence.name", { id: track.seq_id });
    lines.push(
      t(column.kind === "step" ? "tracks.at_step" : "tracks.at", { name, record: record + 1, step: column.step }),
    );
    const run = cellAt(track, record);
    const isElsewhere = run?.kind === "idle" && column.instance !== track.instance;
    const kind = isElsewhere ? "beside" : run?.again ? "again" : run?.kind;
    const key = kind ?? (track.to !== null && record > track.to ? "finished" : "none");
    const instance = log.value ? instanceName(log.value.header, column.instance) : "";
    const marks = marksIn(track, record, record).map(({ mark }) => t(`tracks.${mark}`));
    lines.push([t(`tracks.cell.${key}`, { n: run?.tokens, again: run?.again, instance }), ...marks].join(" · "));
  }
  if (!log.value) return lines;
  const { tokens, seqs } = limitsOf(log.value);
  lines.push(
    column.kind === "step"
      ? t("tracks.column", {
          step: column.step,
          prefill: column.prefill,
          decode: column.decode,
          budget: tokens,
          seqs: column.scheduled,
          places: seqs,
          waiting: column.waiting,
        })
      : t(`tracks.column.${column.kind}`),
  );
  return lines;
}
