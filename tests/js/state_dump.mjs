// node state_dump.mjs FILE.kvtrace: for every record one line of JSON, the state after it in canonical form:
// keys as the Python fields, sorted; bytes as lowercase hex; maps keyed by decimal strings.

import { readFileSync } from "node:fs";
import { decode } from "../../static/js/trace/codec.js";
import { parseTrace } from "../../static/js/trace/file.js";
import { apply, initialState } from "../../static/js/trace/state.js";

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

if (process.argv[2]) {
  const trace = parseTrace(readFileSync(process.argv[2]));
  if (trace.damage) process.stderr.write(`${trace.damage}\n`);
  const state = initialState(decode(trace.header));
  for (const bytes of trace.records) {
    apply(state, decode(bytes));
    process.stdout.write(`${JSON.stringify(canonical(state))}\n`);
  }
}
