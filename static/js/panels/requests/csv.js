// The table of requests to keep: every figure of the rows that are shown, in their order; seconds as they are.

import { csvText } from "../../core/csv.js";

/** @typedef {import("../../core/requests.js").Row} Row */

/** @type {[name: string, of: (row: Row) => import("../../core/csv.js").Cell][]} */
const CELLS = [
  ["seq_id", (row) => row.seq],
  ["request_id", (row) => row.request],
  ["client", (row) => row.client],
  ["prompt_tokens", (row) => row.prompt],
  ["cached_tokens", (row) => row.hit],
  ["output_tokens", (row) => row.output],
  ["missed_seconds_after_eviction", (row) => row.missed],
  ["lane_seconds", (row) => row.lane],
  ["queue_seconds", (row) => row.queue],
  ["prefill_seconds", (row) => row.prefill],
  ["moving_seconds", (row) => row.moving],
  ["moved_bytes", (row) => row.moved],
  ["decode_seconds", (row) => row.decode],
  ["preempted_seconds", (row) => row.away],
  ["preemptions", (row) => row.preempted],
  ["tokens_computed_again", (row) => row.lost],
  ["ttft_seconds", (row) => row.ttft],
  ["tpot_seconds", (row) => row.tpot],
  ["slow_steps", (row) => row.slow],
  ["submitted_at_seconds", (row) => row.begin],
  ["ended_at_seconds", (row) => row.until],
  ["end", (row) => row.end],
];

/** @param {readonly Row[]} rows */
export const csvOfRows = (rows) =>
  csvText([CELLS.map(([name]) => name), ...rows.map((row) => CELLS.map(([, of]) => of(row)))]);
