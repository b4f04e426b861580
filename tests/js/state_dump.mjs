// node state_dump.mjs FILE.kvtrace: for every record one line of JSON, the state after it in canonical form:
// keys as the Python fields, sorted; bytes as lowercase hex; maps keyed by decimal strings.

import { readFileSync } from "node:fs";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";

export function canonical(value) {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (Array.isArray(value)) return value.map(canonical);
  if (value instanceof Map) return canonical(Object.fromEntries([...value].map(([k, v]) => [String(k), v])));
  if (value !== null && typeof value === "object")
    return Object.fromEntries(
      Object.keys(value)
        .sort()
        .map((key) => [key, canonical(value[key])]),
    );
  return value;
}

/** The states of a log as the page gets them: back and forth, from whatever is kept of other states. */
function statesOf(trace) {
  const log = new TraceLog(trace.header);
  for (const bytes of trace.records) log.append(bytes);
  const found = [];
  for (let i = 0, index = 0; i < log.length; i++, index = (index + STRIDE) % log.length) {
    while (found[index]) index = (index + 1) % log.length;
    found[index] = JSON.stringify(canonical(log.stateAt(index)));
  }
  return found;
}

const STRIDE = 37;

if (process.argv[2]) {
  const trace = parseTrace(readFileSync(process.argv[2]));
  if (trace.damage) process.stderr.write(`${trace.damage}\n`);
  for (const line of statesOf(trace)) process.stdout.write(`${line}\n`);
}
