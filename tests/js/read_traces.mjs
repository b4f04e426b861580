// node read_traces.mjs: for each path on standard input one line of JSON, what the page's reader makes of the file:
// {records, refused, captures, state}: how many records it took, why it took no more (null: that is all), for each record whether
// its arrays are some (null: it has none), and the state after the last record, in canonical form (of a large pool: null).

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { decodeAs, TraceFormatError } from "../../static/js/core/codec.js";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { TraceStateError } from "../../static/js/core/state.js";
import { canonical } from "./state_dump.mjs";

const MAX_BLOCKS = 4096; // a larger pool is not written out

function read(path) {
  const found = { records: 0, refused: null, captures: [], state: null };
  try {
    const trace = parseTrace(readFileSync(path));
    const log = new TraceLog(trace.header);
    try {
      for (const [index, bytes] of trace.records.entries()) {
        log.append(bytes, trace.captures[index]);
        found.captures.push(trace.captures[index] && isCapture(trace.captures[index]));
      }
    } finally {
      found.records = log.length;
      const state = log.stateAt(log.length - 1);
      if (state.blocks.length <= MAX_BLOCKS) found.state = canonical(state);
      for (let index = 0; index < log.length; index += Math.ceil(log.length / 16)) log.writesIn(index);
    }
  } catch (error) {
    if (!(error instanceof TraceFormatError || error instanceof TraceStateError)) throw error;
    found.refused = error.message;
  }
  return found;
}

function isCapture(bytes) {
  try {
    decodeAs(bytes, "Capture");
    return true;
  } catch (error) {
    if (!(error instanceof TraceFormatError)) throw error;
    return false;
  }
}

for await (const path of createInterface({ input: process.stdin })) {
  let line;
  try {
    line = JSON.stringify(read(path));
  } catch (error) {
    line = JSON.stringify({ crashed: `${error.stack}` });
  }
  process.stdout.write(`${line}\n`);
}
