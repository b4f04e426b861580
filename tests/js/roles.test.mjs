// Attention patterns of heads, measured on the rows of a run: the arithmetic by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TraceLog } from "../../static/js/core/log.js";
import { endsClause, NamedKeys, PATTERNS } from "../../static/js/core/patterns.js";
import { HeadRoles, rolesOf } from "../../static/js/core/roles.js";
import { teachingHead } from "../../static/js/core/teaching.js";
import { encode } from "../../static/vendor/msgpack/encode.mjs";
import { bytes, floats, header, MEMORY, MODEL, op } from "./log_builder.mjs";

/** Keys by pattern of each position of a text of one-character tokens. */
function namedIn(text) {
  const characters = Array.from(text);
  const of = { token_ids: characters.map((c) => c.codePointAt(0)), token_bytes: characters.map(bytes) };
  const named = new NamedKeys();
  return characters.map((_, position) =>
    Object.fromEntries(PATTERNS.map((pattern, i) => [pattern, named.at(of, position)[i]])),
  );
}

test("what ends a clause", () => {
  for (const mark of ["，", "。", ",", ".\n", "\n", " ?", "……"]) assert.ok(endsClause(bytes(mark)), mark);
  for (const none of [" ", "a", "月", "-", "'", "a."]) assert.ok(!endsClause(bytes(none)), none);
  assert.ok(!endsClause(bytes("，").slice(0, 2)), "a piece of a mark");
});

test("the keys that a text names; one that two patterns name counts for neither", () => {
  const found = namedIn("甲乙丙，丁乙戊，乙");
  // position 6, 戊: the third place of the second clause, 丙 is that of the first
  assert.deepEqual(found[6], {
    previous_token: 5,
    first_token: 0,
    itself: 6,
    induction: -1,
    parallel_clause: 2,
    clause_start: 4,
    last_punctuation: 3,
  });
  // position 5, 乙: it stood at 1 before, and 丙 (2) followed it; its clause began at 4, which is the token before too
  assert.deepEqual(found[5], {
    previous_token: -1,
    first_token: 0,
    itself: 5,
    induction: 2,
    parallel_clause: 1,
    clause_start: -1,
    last_punctuation: 3,
  });
  assert.deepEqual([found[0].itself, found[0].first_token, found[0].previous_token], [-1, -1, -1]);
  assert.equal(found[2].clause_start, -1); // the first clause begins with the text
});

const KEYS = 12;
const LAYERS = 2;
/** Queries of head 0 in layer 0 give 0.75 to the token before and 0.25 to the first; other heads attend uniformly. */
const weightOf = (layer, head, query, key) => {
  if (key > query) return 0;
  if (layer || head || query < 2) return 1 / (query + 1);
  return key === query - 1 ? 0.75 : key === 0 ? 0.25 : 0;
};

function capture(index, layers, start, count) {
  return encode({
    index,
    dtype: "float32",
    layers: layers.map((layer) => layerArrays(layer, start, count)),
    omitted: "",
  });
}

function layerArrays(layer, start, count) {
  const width = start + count;
  const rows = [0, 1].flatMap((head) =>
    Array.from({ length: count }, (_, i) =>
      Array.from({ length: width }, (_, key) => weightOf(layer, head, start + i, key)),
    ).flat(),
  );
  const zeros = (heads) => floats([count, heads, 2], new Array(count * heads * 2).fill(0));
  return {
    layer,
    q: zeros(2),
    k: zeros(1),
    v: zeros(1),
    rows: [{ seq_id: 0, query_start: start, key_start: 0, heads: [0, 1], weights: floats([2, count, width], rows) }],
  };
}

/** A prompt of eleven different tokens, and one that is decoded; arrays come with the records where `travels`. */
function logOf(travels, model = {}) {
  const log = new TraceLog(
    header({ block_size: 4 }, { model: { ...MODEL, num_layers: LAYERS, sliding_windows: [null, null], ...model } }),
  );
  const prompt = Array.from({ length: KEYS - 1 }, (_, i) => i + 1);
  const common = { timing: { at: 1 }, memory: MEMORY };
  log.append(encode({ index: 0, kind: "submit", step: 0, ops: [op.submit(0, prompt, 2)], ...common }));
  const entry = op.entry(0, "prefill", 0, prompt);
  const blocks = [0, 1, 2].map((id) => op.allocate(0, id, id));
  const prefill = [op.admit(0), ...blocks, op.write(0, 0, KEYS - 1), op.sample(0, 30)];
  const outputs = [{ seq_id: 0, token_id: 30, token_bytes: bytes("b"), text: "b", logprob: -1, top: [] }];
  const step = { kind: "step", outputs, has_capture: true, ...common };
  log.append(
    encode({ index: 1, step: 1, batch: [entry], ops: prefill, ...step }),
    travels ? capture(1, [0, 1], 0, KEYS - 1) : null,
  );
  const decode = op.entry(0, "decode", KEYS - 1, [30]);
  const ops = [op.write(0, KEYS - 1, 1), op.sample(0, 30)];
  log.append(
    encode({ index: 2, step: 2, batch: [decode], ops, ...step }),
    travels ? capture(2, [0, 1], KEYS - 1, 1) : null,
  );
  return log;
}

const never = () => false;
const round = (found) => found.map(({ mean_weight, ...rest }) => ({ ...rest, mean_weight: +mean_weight.toFixed(6) }));

test("mean weights, what alike would give, and how many queries: of the rows that are here", () => {
  const roles = new HeadRoles(logOf(true));
  assert.ok(roles.measure(never));
  // the token before of positions 2…11 (before that the first token is the same key), 1 / (position + 1) alike
  const before = roles.of(0, 0).find((one) => one.pattern === "previous_token");
  const alike = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12].reduce((sum, n) => sum + 1 / n, 0) / 10;
  assert.deepEqual([before.queries, before.mean_weight], [10, 0.75]);
  assert.ok(Math.abs(before.uniform - alike) < 1e-12);
  assert.deepEqual(roles.role(0, 0).pattern, "previous_token");
  assert.equal(roles.role(0, 1), null, "a head that looks everywhere alike has no role");
  assert.deepEqual(
    roles.best().map((one) => [one.pattern, one.layer, one.head]),
    [["previous_token", 0, 0]],
  );
});

test("in slices, and arrays that come later one layer at a time, it is the same and nothing counts twice", () => {
  const whole = new HeadRoles(logOf(true));
  whole.measure(never);
  const sliced = new HeadRoles(logOf(true));
  let slices = 1;
  while (!sliced.measure(() => true)) slices += 1;
  assert.equal(slices, 5); // four layers' arrays, and one look that finds no more
  const late = logOf(false);
  const roles = rolesOf(late);
  assert.ok(roles.measure(never) && roles.of(0, 0).length === 0);
  for (const [record, start, count] of [
    [1, 0, KEYS - 1],
    [2, KEYS - 1, 1],
  ])
    for (const layer of [1, 0, 0]) late.addLayer(record, layer, encode(layerArrays(layer, start, count)));
  assert.ok(rolesOf(late).measure(never));
  for (const [layer, head] of [
    [0, 0],
    [1, 1],
  ]) {
    assert.deepEqual(round(sliced.of(layer, head)), round(whole.of(layer, head)));
    assert.deepEqual(round(roles.of(layer, head)), round(whole.of(layer, head)));
  }
});

test("a key out of a layer's window is not asked for, and alike is what its window leaves", () => {
  const roles = new HeadRoles(logOf(true, { sliding_windows: [4, null] }));
  roles.measure(never);
  const first = roles.of(0, 0).find((one) => one.pattern === "first_token");
  assert.equal(first.queries, 2); // the first token is in the window of positions 2 and 3 alone
  assert.ok(Math.abs(first.uniform - (1 / 3 + 1 / 4) / 2) < 1e-12);
});

test("fewer than eight queries give no role", () => {
  const log = logOf(false);
  log.addLayer(2, 0, encode(layerArrays(0, KEYS - 1, 1)));
  const roles = rolesOf(log);
  roles.measure(never);
  assert.equal(roles.of(0, 0).find((one) => one.pattern === "previous_token").mean_weight, 0.75);
  assert.equal(roles.role(0, 0), null);
});

test("the page opens on a broad row, and keeps to it", () => {
  const log = logOf(true);
  const found = teachingHead(log);
  // rows that give every key a twelfth have no strongest key; of the others the head that stands out
  assert.deepEqual(found, { layer: 0, head: 0 });
  log.addLayer(2, 0, encode(layerArrays(1, KEYS - 1, 1)));
  assert.equal(teachingHead(log), found);
});

test("a head that was measured at training is opened on before anything is here, where its layer was recorded", () => {
  const measured = { pattern: "itself", layer: 1, head: 1, mean_weight: 0.9, uniform: 0.1, queries: 99 };
  const of = (log) => {
    const { layer, head } = teachingHead(log);
    return [layer, head];
  };
  assert.deepEqual(of(logOf(false, { heads: [measured] })), [1, 1]);
  assert.deepEqual(of(logOf(true, { heads: [measured] })), [1, 1]);
  assert.equal(teachingHead(logOf(false)), null);
});
