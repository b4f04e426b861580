// A trace that is read while it arrives: requested records come first, and a truncated file is reported.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseTrace } from "../../static/js/core/file.js";
import { ArrivingTrace } from "../../static/js/net/arriving_trace.js";

const FILE = new Uint8Array(readFileSync("static/recordings/prefix.kvtrace"));
const WHOLE = parseTrace(FILE);
const ADDRESS = new URL("https://example.org/runs/x.kvtrace");

/** An answer whose bytes are given one part at a time. */
function answering(status = 200) {
  let control;
  const body = new ReadableStream({ start: (given) => (control = given) });
  globalThis.fetch = async () => new Response(status === 200 ? body : null, { status });
  return control;
}

const settled = () => new Promise((done) => setTimeout(done, 5));

test("the first records and their arrays arrive before the last ones", async () => {
  const control = answering();
  const trace = new ArrivingTrace(ADDRESS);
  let first = null;
  trace.upTo(0).then((found) => (first = found));
  control.enqueue(FILE.subarray(0, 700)); // within the header
  await settled();
  assert.equal(first, null);
  const half = FILE.length >> 1;
  control.enqueue(FILE.subarray(700, half));
  await settled();
  assert.ok(first.records.length >= 1 && first.records.length < WHOLE.records.length);
  const some = await trace.upTo(first.records.length - 1);
  assert.deepEqual(some.captures.slice(0, -1), WHOLE.captures.slice(0, some.captures.length - 1));
  let last = null;
  trace.upTo(WHOLE.records.length).then((found) => (last = found));
  for (let at = half; at < FILE.length; at += 10_000)
    control.enqueue(FILE.subarray(at, Math.min(at + 10_000, FILE.length)));
  await settled();
  assert.equal(last, null, "the arrays of the last record may still be on their way");
  control.close();
  await settled();
  assert.deepEqual(last, WHOLE);
  assert.equal(trace.hasFailed, false);
});

test("the received part of an interrupted download is readable", async () => {
  const control = answering();
  const trace = new ArrivingTrace(ADDRESS);
  control.enqueue(FILE.subarray(0, FILE.length >> 1));
  await settled();
  control.error(new Error("gone"));
  assert.ok((await trace.upTo(1)).records.length > 1);
  await assert.rejects(trace.upTo(WHOLE.records.length), /x\.kvtrace: gone/);
  assert.ok(trace.hasFailed, "it may be asked for again");
});

test("a missing file is reported", async () => {
  answering(404);
  await assert.rejects(new ArrivingTrace(ADDRESS).upTo(0), /HTTP 404/);
});
