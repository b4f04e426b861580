import assert from "node:assert/strict";
import { test } from "node:test";
import { isBare } from "../../static/js/core/bare.js";

const step = (more = {}) => ({ kind: "step", batch: [{ seq_id: 0 }], ...more });

test("a run is without arrays once a step computed something and as long as no record has some", () => {
  const log = { records: [{ kind: "submit" }] };
  assert.equal(isBare(log), false); // nothing was computed yet: there may be arrays
  log.records.push(step());
  assert.equal(isBare(log), true);
  log.records.push(step(), step({ has_capture: true }));
  assert.equal(isBare(log), false);
  log.records.push(step());
  assert.equal(isBare(log), false); // one step without arrays is not a run without
});

test("a run with arrays in its first step is not searched", () => {
  const records = [{ kind: "submit" }, step({ has_capture: true })];
  const log = { records };
  assert.equal(isBare(log), false);
  Object.defineProperty(records, 2, { get: () => assert.fail("looked at"), enumerable: true });
  assert.equal(isBare(log), false);
});
