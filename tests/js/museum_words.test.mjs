// Words of the museum for each exhibit: its sentence, the check that notices it, the facts of a step.

import assert from "node:assert/strict";
import { test } from "node:test";

import { show } from "../../static/js/control/drawn.js";
import { factsOf } from "../../static/js/panels/museum/facts.js";
import { lanes, player, scene, specOf } from "../../static/js/panels/museum/model.js";
import { witnesses } from "../../static/js/panels/museum/notices.js";
import { museumSentence } from "../../static/js/panels/museum/words.js";
import { stepRecords } from "../../static/js/runs/steps.js";
import { settings } from "../../static/js/state/settings.js";
import { EXHIBITS, read, twins } from "./museum_traces.mjs";
import { speak } from "./words.mjs";

const CAUSES = {
  // what is said of the cause, at the step at which it first shows
  slot_off_by_one: [1, "moved"],
  no_copy_at_shared_write: [2, "shared_write"],
  stale_hash_after_reallocation: [33, "foreign"],
  output_lost_at_preemption: [11, "forgotten"],
  missing_causal_mask: [1, "above"],
  rope_restarted_at_chunk: [2, "turned"],
};
const OBJECTED = ["no_copy_at_shared_write", "stale_hash_after_reallocation"];

/** The scene of two logs that were run to their end, looked at after `step`. */
function at(logs, step) {
  lanes.logs.value = logs;
  lanes.numSteps.value = Math.max(...logs.map((log) => stepRecords(log).length));
  show(player.shown);
  player.look(step);
  lanes.phase.value = "done";
  lanes.spec.value = { prompts: ["a", "b"] };
  return scene.value;
}

/** Step in which each check noticed it. */
const noticed = (now) => Object.fromEntries(witnesses(now).map(({ name, step }) => [name, step]));
const kinds = (now, lane) => factsOf(now).flatMap((fact) => (fact.lane === lane ? [fact.kind] : []));

for (const id of EXHIBITS)
  test(`${id}: the cause is told of the faulty run when it first shows, and of the healthy one nothing`, () => {
    const logs = twins(id);
    const [step, cause] = CAUSES[id];
    const now = at(logs, step);
    const told = factsOf(now).filter((fact) => fact.kind === cause);
    assert.deepEqual(
      told.map(({ lane, fault }) => [lane, fault]),
      [["faulty", true]],
    );
    assert.ok(told[0].text && !told[0].text.includes("{"), told[0].text);
    assert.ok(!factsOf(at(logs, step - 1)).some((fact) => fact.kind === cause));
    assert.ok(!factsOf(now).some((fact) => fact.fault && fact.lane !== "faulty"));
    assert.match(museumSentence(now, lanes), new RegExp(`^Step ${step}:`));
    const objected = logs[1].records.find((record) => record.integrity?.length);
    assert.equal(noticed(now).books, objected?.step);
    assert.equal(Boolean(objected), OBJECTED.includes(id));
    assert.ok((noticed(now).tokens ?? noticed(now).keys) >= 1); // some traces end before a token differs
  });

test("no witness notices anything in a healthy run beside itself, and it is said so", () => {
  const id = "missing_causal_mask";
  const now = at([read(`${id}-healthy`), read(`${id}-healthy`)], 2);
  assert.deepEqual(Object.values(noticed(now)), Array(5).fill(undefined));
  assert.deepEqual([...new Set(witnesses(now).map((one) => one.text))], ["nothing wrong so far", "the same so far"]);
  assert.ok(!factsOf(now).some((fact) => fact.fault || fact.lane !== "both"));
});

test("the sentence tells the first difference once, then what each chose", () => {
  const logs = twins("no_copy_at_shared_write");
  assert.match(museumSentence(at(logs, 1), lanes), /^Step 1: both runs chose “.”/);
  assert.match(
    museumSentence(at(logs, 4), lanes),
    /^Step 4: the first token that differs\. seq \d, output 4: the healthy run has “.”, the faulty one “.”\./,
  );
  assert.match(museumSentence(at(logs, 5), lanes), /^Step 5: /);
  assert.equal(
    museumSentence(at(logs, 0), lanes),
    "Both engines have the same 2 requests waiting, and the same settings.",
  );
});

test("an objection is told with its numbers, and at the end that nothing objected", () => {
  const stale = twins("stale_hash_after_reallocation");
  assert.match(
    museumSentence(at(stale, 33), lanes),
    /The check of the books objects: .*block 0 no longer holds what the lookup found/,
  );
  const silent = twins("slot_off_by_one");
  const now = at(silent, null);
  assert.match(museumSentence(now, lanes), /The books are right to the end: only the comparison notices\.$/);
  assert.equal(witnesses(now)[0].text, "the books are right: only the comparison notices");
});

test("a wrong hit is told of both runs, each with its own count", () => {
  const facts = factsOf(at(twins("stale_hash_after_reallocation"), 33)).filter((fact) => fact.kind === "lookup");
  const told = Object.fromEntries(facts.map(({ lane, text }) => [lane, text]));
  assert.match(told.faulty, /has 12 of 16 tokens/);
  assert.match(told.healthy, /miss/);
});

test("decisions that hide faults are described for both runs", () => {
  const [step] = CAUSES.output_lost_at_preemption;
  const now = at(twins("output_lost_at_preemption"), step - 1);
  const told = factsOf(now).filter((fact) => fact.kind === "preempt");
  assert.deepEqual(told.map(({ lane }) => lane).sort(), ["faulty", "healthy"]); // what it costs differs
  for (const { text } of told) assert.match(text, /20 computed tokens given up/); // 12 of its prompt and 8 chosen since
});

test("the sequence in which the fault shows first is the one that is looked at", () => {
  assert.equal(at(twins("stale_hash_after_reallocation"), 33).seq, 2);
  assert.equal(at(twins("slot_off_by_one"), 1).seq, 0);
});

test("common decisions are described only if faults may hide behind them", () => {
  const now = at(twins("slot_off_by_one"), 1);
  const both = kinds(now, "both");
  assert.ok(both.includes("lookup") && both.includes("write"));
  assert.ok(!both.includes("allocate"));
  assert.equal(new Set(both).size, both.length);
});

test("both lanes get the same request except the fault", () => {
  const config = { block_size: 4, num_blocks: 32, max_num_seqs: 16 };
  const { prompts, configs } = specOf({
    id: "slot_off_by_one",
    prompts: { en: ["moon"], zh: ["月"] },
    sampling: {},
    config,
  });
  assert.deepEqual(prompts, ["moon"], "in the reader's language");
  assert.deepEqual(configs.healthy, { ...config, fault: null });
  assert.deepEqual(configs.faulty, { ...config, fault: "slot_off_by_one" });
});

test("another exhibit discards the previous runs", () => {
  at(twins("slot_off_by_one"), 1);
  settings.exhibit.value = "missing_causal_mask";
  assert.deepEqual([lanes.logs.value, scene.value], [null, null]);
  assert.match(museumSentence(null, lanes), /^Run, or take a step: two fresh engines/);
});

test("Chinese has a text for all of it", () => {
  speak("zh");
  for (const id of EXHIBITS) {
    const now = at(twins(id), CAUSES[id][0]);
    const said = [museumSentence(now, lanes), ...factsOf(now), ...witnesses(now)].map((one) => one.text ?? one);
    for (const text of said) assert.ok(/\p{Script=Han}/u.test(text) && !/museum\.|\{/.test(text), text);
  }
  speak("en");
});
