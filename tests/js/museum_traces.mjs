// The traces of each exhibit as the engine wrote them (tests/js/museum/make.py), read for tests.

import { readFileSync } from "node:fs";

import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";

export const EXHIBITS = [
  "slot_off_by_one",
  "no_copy_at_shared_write",
  "stale_hash_after_reallocation",
  "output_lost_at_preemption",
  "missing_causal_mask",
  "rope_restarted_at_chunk",
];

/** The log of a trace of tests/js/museum, with its captures. */
export function read(name) {
  const trace = parseTrace(new Uint8Array(readFileSync(new URL(`museum/${name}.kvtrace`, import.meta.url))));
  const log = new TraceLog(trace.header);
  trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  return log;
}

/** The healthy and the faulty run of an exhibit. */
export const twins = (id) => [read(`${id}-healthy`), read(`${id}-faulty`)];
