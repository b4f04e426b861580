// Initial record of an opened recording; a link's own record takes precedence.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { firstDecodes, initialEvent, initialRecord } from "../../static/js/control/deep_link.js";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { header, op, recordsOf } from "./log_builder.mjs";
import { file, later, session, settings, store } from "./session_page.mjs";

const { accept, followOpened, invited } = await import("../../static/js/control/deep_link.js");
const { backToLive, playing, stop } = await import("../../static/js/control/playback.js");

const shipped = (name) => {
  const trace = parseTrace(readFileSync(new URL(`../../static/recordings/${name}.kvtrace`, import.meta.url)));
  const log = new TraceLog(trace.header);
  trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  return log;
};
const logOf = (steps) => {
  const log = new TraceLog(header());
  for (const bytes of recordsOf(steps)) log.append(bytes);
  return log;
};
const has = (log, index, type) => log.records[index].ops.some((one) => one.type === type);

test("a preemption comes before a hit, and both before any decode step", () => {
  const preempting = shipped("preemption");
  const at = initialRecord(preempting, 0, 0);
  assert.ok(has(preempting, at, "preempt"));
  assert.ok(preempting.records.slice(0, at).every((_, i) => !has(preempting, i, "preempt")));
  const sharing = shipped("prefix");
  const hit = initialRecord(sharing, 0, 0);
  assert.ok(has(sharing, hit, "share"));
  assert.ok(sharing.records.slice(0, hit).every((_, i) => !has(sharing, i, "share")));
});

test("else the first decode step with a broad row: 8 keys or more, none with more than half of the weight", () => {
  const log = shipped("moon");
  assert.equal(initialEvent(log), null);
  for (const [layer, head] of [
    [0, 0],
    [1, 3],
    [3, 7],
  ]) {
    const at = initialRecord(log, layer, head);
    const maxOf = (index) => {
      const [{ seq_id, context_len }] = log.records[index].batch;
      const found = log.layer(index, layer).rows.find((rows) => rows.seq_id === seq_id);
      return Math.max(...found.weights.row(found.heads.indexOf(head), context_len - 1 - found.query_start));
    };
    const decodes = firstDecodes(log);
    const broad = decodes.filter((index) => maxOf(index) <= 0.5); // the prompt has more than 8 tokens
    assert.equal(at, broad[0] ?? decodes[0]);
  }
});

test("without arrays the first decode step, without any the last record", () => {
  const steps = [
    { kind: "submit", ops: [op.submit(0, [1], 3)] },
    {
      batch: [op.entry(0, "prefill", 0, [1])],
      ops: [op.admit(0), op.allocate(0, 0, 0), op.write(0, 0, 1), op.sample(0)],
    },
  ];
  assert.equal(initialRecord(logOf(steps), 0, 0), 1);
  const decode = { batch: [op.entry(0, "decode", 1, [7])], ops: [op.write(0, 1, 1), op.sample(0)] };
  assert.equal(initialRecord(logOf([...steps, decode]), 0, 0), 2);
  assert.equal(initialRecord(logOf([]), 0, 0), -1);
});

followOpened();

test("a file opens at its telling record, and is played from there", async () => {
  settings.step.value = null;
  session.open(file(5)); // a submission, a prefill, three decode steps of three keys and less
  await later(5);
  assert.deepEqual([store.viewIndex.value, settings.step.value, invited.value], [2, 2, true]);
  accept();
  assert.deepEqual([playing.value, invited.value], [1, false]);
  stop();
  session.open(file(5));
  await later(5);
  assert.equal(invited.value, true);
  store.goTo(1); // one went elsewhere by oneself
  assert.equal(invited.value, false);
});

test("a link can name the last record of a recording", async () => {
  session.open(file(5));
  await later(5);
  backToLive();
  assert.equal(settings.step.value, 4);
});
