// Tooltip text of a cell of the lanes, and its click action.

import { instanceName } from "../../core/instances.js";
import { cellAt, marksIn } from "../../core/lanes.js";
import { isShared } from "../../core/request_parts.js";
import { t } from "../../i18n/words.js";
import { settings } from "../../state/settings.js";
import { goTo, log, select } from "../../state/store.js";
import { GUTTER, NAMES } from "./geometry.js";

/**
 * @typedef {import("./paint.js").Lanes} Lanes
 */

/** @param {import("../../core/log.js").TraceLog} log */
export const limitsOf = ({ header }) => ({
  tokens: Number(header.engine.max_num_batched_tokens),
  seqs: Number(header.engine.max_num_seqs),
});

/** Width of the fixed left column. @param {import("../../core/log.js").TraceLog | null} log */
export const gutterOf = (log) => GUTTER + (log && isShared(log) ? NAMES : 0);

/**
 * Choose a sequence by its name, a record by a cell, or an operation by its mark.
 *
 * @param {{record: number | null, lane: number | null}} at
 * @param {Lanes} lanes
 */
export function pick({ record, lane: row }, lanes) {
  const lane = row === null ? undefined : lanes.lanes[row];
  if (record === null) return lane && (settings.seq.value = lane.seq_id);
  goTo(record);
  const mark = lane && marksIn(lane, record, record).at(-1);
  if (mark) select({ record, op: mark.at });
}

/**
 * Describe a cell: position, work of the sequence, events, and budgets of the step.
 *
 * @param {Lanes} lanes
 * @param {number | null} row
 * @param {number} record
 */
export function describe(lanes, row, record) {
  const column = lanes.columns[record];
  const lines = [];
  const lane = row === null ? undefined : lanes.lanes[row];
  if (lane) {
    const name = t("sequence.name", { id: lane.seq_id });
    lines.push(
      t(column.kind === "step" ? "lanes.at_step" : "lanes.at", { name, record: record + 1, step: column.step }),
    );
    const run = cellAt(lane, record);
    const beside = run?.kind === "idle" && column.instance !== lane.instance;
    const kind = beside ? "beside" : run?.again ? "again" : run?.kind;
    const key = kind ?? (lane.to !== null && record > lane.to ? "finished" : "none");
    const instance = log.value ? instanceName(log.value.header, column.instance) : "";
    const marks = marksIn(lane, record, record).map(({ mark }) => t(`lanes.${mark}`));
    lines.push([t(`lanes.cell.${key}`, { n: run?.tokens, again: run?.again, instance }), ...marks].join(" · "));
  }
  if (!log.value) return lines;
  const { tokens, seqs } = limitsOf(log.value);
  lines.push(
    column.kind === "step"
      ? t("lanes.column", {
          step: column.step,
          prefill: column.prefill,
          decode: column.decode,
          budget: tokens,
          seqs: column.scheduled,
          places: seqs,
          waiting: column.waiting,
        })
      : t(`lanes.column.${column.kind}`),
  );
  return lines;
}
