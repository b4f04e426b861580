// Runs beside each other: steps, the tokens of one sequence in several lanes, the first difference.

import assert from "node:assert/strict";
import { test } from "node:test";

import { TraceLog } from "../../static/js/core/log.js";
import { placeClass } from "../../static/js/runs/side_by_side.js";
import { firstOf, hasStep, recordAt, stepRecords } from "../../static/js/runs/steps.js";
import {
  align,
  chosenBy,
  differsAt,
  firstTokenDifference,
  labelsOf,
  placesShown,
  sequencesAt,
} from "../../static/js/runs/tokens.js";
import { choices, tokensWord, verdict } from "../../static/js/runs/words.js";
import { bytes, header, op, recordsOf } from "./log_builder.mjs";
import "./words.mjs";

const tokens = (...ids) =>
  ids.map((id, i) => ({ token_id: id, token_bytes: bytes(`t${id}`), record: i + 1, step: i + 1 }));
const ended = () => true;
const under_way = () => false;

/** The log of a sequence that chooses `chosen`, one a step. */
function run(chosen) {
  const log = new TraceLog(header());
  const steps = chosen.map((token_id, i) => ({
    batch: [op.entry(0, i ? "decode" : "prefill", i, [1])],
    ops: [
      ...(i === 0 ? [op.admit(0)] : []),
      ...(i % 2 === 0 ? [op.allocate(0, i / 2, i / 2)] : []),
      op.write(0, i, 1),
      op.sample(0, token_id),
      ...(i === chosen.length - 1
        ? [...Array(Math.ceil(chosen.length / 2)).keys()].reverse().map((block) => op.free(0, block, "front"))
        : []),
      ...(i === chosen.length - 1 ? [op.finish(0)] : []),
    ],
    outputs: [{ seq_id: 0, token_id, token_bytes: bytes(`t${token_id}`), text: "", logprob: -1, top: [] }],
  }));
  for (const record of recordsOf([{ kind: "submit", ops: [op.submit(0, [1], chosen.length)] }, ...steps]))
    log.append(record);
  return log;
}

test("a run that took fewer steps stays at its last", () => {
  const log = run([7, 8]);
  assert.deepEqual(stepRecords(log), [1, 2]);
  assert.deepEqual(
    [0, 1, 2, 9].map((step) => recordAt(log, step)),
    [-1, 1, 2, 2],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((step) => hasStep(log, step)),
    [false, true, true, false],
  );
  assert.deepEqual(stepRecords(new TraceLog(header())), []);
});

test("a search remembers how far it has looked, for each pair of logs", () => {
  const looked = [];
  const find = firstOf((_, step) => (looked.push(step), step === 3 ? { step, what: "it" } : null));
  const [a, b, c] = [run([7]), run([7]), run([7])];
  assert.equal(find([a, b], 2), null);
  assert.deepEqual(find([a, b], 5), { step: 3, what: "it" });
  assert.equal(find([a, b], 2), null); // looking back
  assert.deepEqual(looked, [1, 2, 3]);
  find([c, b], 1); // another run beside it
  assert.deepEqual(looked, [1, 2, 3, 1]);
});

test("lanes are aligned place by place up to the first that differs", () => {
  const { same, difference } = align([tokens(7, 8, 9), tokens(7, 8, 6), tokens(7, 8, 9)], under_way);
  assert.deepEqual([same, difference.place, difference.step], [2, 2, 3]);
  assert.deepEqual(
    difference.tokens.map((token) => token.token_id),
    [9, 6, 9],
  );
  assert.deepEqual(align([tokens(7, 8), tokens(7, 8)], under_way).difference, null);
  assert.deepEqual(align([[], []], under_way), { lanes: [[], []], same: 0, difference: null });
});

test("a lane that ended before differs where it ended; one that is only behind does not", () => {
  const lanes = [tokens(7, 8, 9), tokens(7, 8)];
  assert.deepEqual([align(lanes, under_way).same, align(lanes, under_way).difference], [2, null]);
  const { place, step, tokens: there } = align(lanes, ended).difference;
  assert.deepEqual([place, step, there[1]], [2, 3, undefined]);
});

test("behind the first difference each place is told by itself", () => {
  const aligned = align([tokens(7, 8, 9, 5), tokens(7, 6, 9, 4)], under_way);
  assert.deepEqual(
    [0, 1, 2, 3].map((place) => differsAt(aligned, place)),
    [false, true, false, true],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((place) => placeClass(aligned, place)),
    ["runs-place", "runs-place differs first", "runs-place", "runs-place differs"],
  );
  assert.equal(differsAt(align([tokens(7, 8), tokens(7)], under_way), 1), false); // it has not come so far
});

test("what is kept in the document lies around the first difference, or where the lanes go on", () => {
  const long = Array.from({ length: 300 }, (_, i) => i);
  const most = { before: 24, after: 128 };
  assert.deepEqual(placesShown(align([tokens(...long), tokens(...long)], ended), most), [276, 300]);
  const apart = [...long.slice(0, 50), ...long.slice(51), 0];
  assert.deepEqual(placesShown(align([tokens(...long), tokens(...apart)], ended), most), [26, 178]);
  assert.deepEqual(placesShown(align([[], []], ended), most), [0, 0]);
});

test("what sequences chose is found as far as the logs are looked at", () => {
  const logs = [run([7, 8, 9]), run([7, 6])];
  assert.deepEqual(
    chosenBy(logs[0], 2)
      .get(0)
      .map(({ token_id, record, step }) => [token_id, record, step]),
    [
      [7, 1, 1],
      [8, 2, 2],
    ],
  );
  const at = (step) => sequencesAt(logs, step).map(({ seq_id, same, difference }) => [seq_id, same, difference?.place]);
  assert.deepEqual([at(0), at(1), at(3)], [[[0, 0, undefined]], [[0, 1, undefined]], [[0, 1, 1]]]);
  assert.equal(firstTokenDifference(logs, 1), null);
  assert.deepEqual([firstTokenDifference(logs, 3).seq_id, firstTokenDifference(logs, 3).step], [0, 2]);
  const shorter = [run([7, 8, 9]), run([7, 8])];
  assert.equal(firstTokenDifference(shorter, 2), null);
  assert.deepEqual(firstTokenDifference(shorter, 3).tokens[1], undefined); // it had ended
});

test("a fragment of a character is told as one", () => {
  const parts = [[0xe6, 0x9c], [0x88], [...Buffer.from(" the")]];
  const lane = parts.map((part, i) => ({ token_id: i, token_bytes: Uint8Array.from(part), record: i, step: i }));
  assert.deepEqual(labelsOf(lane), ["月 1/2", "月 2/2", "␣the"]);
  assert.equal(tokensWord([bytes("月"), bytes("明")]), "“月明”");
});

test("which run chose what, and whether they agree", () => {
  const lanes = [tokens(7, 8), tokens(7)];
  const names = ["healthy", "with the fault"];
  assert.equal(choices(names, lanes, 1), "healthy “t8”, with the fault had ended");
  assert.equal(
    verdict(names, align(lanes, ended)),
    "Token 2 is the first that differs: healthy “t8”, with the fault had ended.",
  );
  assert.equal(verdict(names, align(lanes, under_way)), "1 of 1 the same in both");
  assert.equal(verdict(names, align([[], []], under_way)), "None chosen yet.");
  assert.equal(verdict(names, null), "None chosen yet.");
});
