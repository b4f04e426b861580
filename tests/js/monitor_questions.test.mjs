// Cached content of a monitored server for a prompt, and reasons for missing hits: each verdict by a stream of events.

import assert from "node:assert/strict";
import { test } from "node:test";
import { observedCacheOf } from "../../static/js/core/observed_cache.js";
import { hitsSince, ranksOf } from "../../static/js/core/observed_ranks.js";
import { cachedFor, idsIn } from "../../static/js/panels/monitor/cached_prefix.js";
import { whyNoHits } from "../../static/js/panels/monitor/no_hits.js";

const bytes = (text) => new TextEncoder().encode(text);
const tokens = (first, count = 4) => Array.from({ length: count }, (_, i) => first + i);
const FULL = { group: 0, kind: "full_attention" };

/** A content at a place: named by its hash, after the one that it follows. */
const stored = (place, hash, ids, parent = null, more = {}) => ({
  ...{ type: "stored", place, medium: "GPU", block_hash: bytes(hash), parent_hash: parent && bytes(parent) },
  ...{ token_ids: ids, ...FULL, ...more },
});
const removed = (place, hash, more = {}) => ({
  type: "removed",
  place,
  medium: "GPU",
  block_hash: bytes(hash),
  ...more,
});

/** A log of one rank, a record for each list of operations; between two looks at the metrics, with `hits` of `asked`. */
function logOf(messages, { hits = 0, asked = 100, settings = {}, ranks = 1 } = {}) {
  const look = (value) => ({
    "vllm:prefix_cache_hits_total": value * hits,
    "vllm:prefix_cache_queries_total": 7 + value * asked,
    ...Object.fromEntries(Object.entries(settings).map(([k, v]) => [`vllm:cache_config_info.${k}`, v])),
  });
  const parts = [{ seen: { metrics: look(0) } }, ...messages.map((ops, i) => ({ ops, seen: { sequence: i } }))];
  parts.push({ seen: { metrics: look(1) } });
  return {
    header: { instances: ranks > 1 ? Array(ranks).fill({}) : [], engine: { block_size: 4 } },
    records: parts.map((part, index) => ({
      ...{ index, timing: { at: index }, ...part },
      instance: part.ops?.instance ?? 0,
    })),
  };
}

function whyAt(log, index = log.records.length - 1) {
  const heard = observedCacheOf(log);
  return whyNoHits(heard.reports(index)[0], 4, () => heard.roots(0, index));
}

function why(messages, options) {
  return whyAt(logOf(messages, options));
}

const A = stored(0, "a", tokens(0));
const MAMBA = { group: 1, kind: "mamba", token_ids: [] };

test("a verdict is given only where something was asked for and nothing hit", () => {
  assert.equal(why([[A]], { hits: 1 }), null);
  assert.equal(why([[A]], { asked: 0 }), null);
  assert.equal(whyAt(logOf([]), -1), null); // no look yet
});

test("reasons for missing hits", () => {
  const said = [
    ["off", [[A]], { settings: { enable_prefix_caching: 0 } }, {}],
    ["silent", [], {}, { asked: 100, size: 4 }],
    ["nothing", [[]], {}, { asked: 100, size: 4 }],
    ["one", [[A]], {}, {}],
    ["different", [[A], [stored(1, "b", tokens(9))]], {}, { n: 2 }],
    // 0 1 2 3 and 0 1 2 9: three tokens, where a block has four
    ["block_size", [[A], [stored(1, "b", [0, 1, 2, 9])]], {}, { shared: 3, size: 4, alignment: 4 }],
    ["salt", [[A], [stored(1, "b", tokens(0), null, { extra_keys: '["x"]' })]], {}, { n: 2 }],
    ["evicted", [[A], [removed(0, "a")], [A]], {}, { n: 1 }],
    ["same_time", [[A], [{ ...A, again: true }]], {}, { n: 1 }],
    ["same_time", [[A, { ...A, again: true }], [{ ...A, again: true }]], {}, { n: 1 }], // not what one message says twice
    // the mamba group stored another content, and never this one
    [
      "group",
      [[A, stored(1, "m", [], null, { ...MAMBA, parent_unsaid: true })], [{ ...A, again: true }]],
      {},
      { n: 1, of: 1, group: 1, kind: "mamba" },
    ],
    // its blocks are four times as long, so what came again could not end there
    [
      "alignment",
      [[A, stored(1, "m", tokens(0, 16), null, { group: 1, kind: "mamba" })], [{ ...A, again: true }]],
      {},
      { shared: 4, size: 16 },
    ],
    [
      "alignment",
      [[A, stored(1, "m", [], null, { ...MAMBA, parent_unsaid: true })], [{ ...A, again: true }]],
      { settings: { cache_hit_alignment_tokens: 528 } },
      { shared: 4, size: 528 },
    ],
    ["ranks", [[A], Object.assign([stored(64, "a", tokens(0))], { instance: 1 })], { ranks: 2 }, { n: 1 }],
    ["unsaid", [[{ ...stored(0, "p", []), parent_unsaid: true }]], {}, {}],
  ];
  for (const [name, messages, options, facts] of said) assert.deepEqual(why(messages, options), { name, facts });
});

test("hits are counted on over a restart, after which the counters are small", () => {
  const readings = new Map([
    ["vllm:prefix_cache_hits_total", [100, 130, 5].map((value, index) => ({ index, at: index, value }))],
    ["vllm:prefix_cache_queries_total", [1000, 1120, 20].map((value, index) => ({ index, at: index, value }))],
  ]);
  assert.deepEqual(hitsSince({ readings }, 2), { hits: 35, asked: 140 }); // 30 and 5 of 120 and 20
});

/** Return the cached content for tokens after the last record of these messages, under each salt. */
function cached(messages, ids, upTo = messages.length) {
  const log = logOf(messages);
  return cachedFor(observedCacheOf(log).chains(ids, upTo)[0], ids.length);
}

const B = stored(1, "b", tokens(4), "a");
const C = stored(2, "c", tokens(8), "b");

test("a prompt hits its resident blocks except the last token", () => {
  const messages = [[A, B, C], [removed(1, "b")]];
  const answers = [
    [tokens(0, 13), 1, 12, "end"],
    [tokens(0, 12), 1, 8, "end"], // its last block has its last token
    [tokens(0, 40), 1, 12, "never"],
    [tokens(0, 13), 2, 4, "gone"],
    [tokens(1, 13), 1, 0, "never"],
    [tokens(0, 3), 1, 0, "end"],
  ];
  for (const [ids, upTo, hit, next] of answers) {
    const [one] = cached(messages, ids, upTo);
    assert.deepEqual([one.hit, one.next, one.limit], [hit, next, null]);
  }
});

test("hits are per salt, and contents outside the GPU do not count", () => {
  const salted = stored(3, "s", tokens(0), null, { extra_keys: '["x"]' });
  const moved = stored(0, "a", tokens(0), null, { medium: "CPU", outside: true });
  const unnamed = { ...moved, place: 1, group: null, kind: null, block_hash: bytes("z") }; // no group that a hit needs
  const in1 = (op) => ({ ...op, group: 1 });
  assert.equal(cached([[unnamed, in1(A)]], tokens(0, 9))[0].hit, 4);
  const answers = cached([[A, salted, moved, B], [removed(0, "a")]], tokens(0, 9), 2);
  assert.deepEqual(
    answers.map(({ salt, hit, known, outside }) => [salt, hit, known, outside]),
    [
      [null, 0, 8, [{ medium: "CPU", tokens: 4 }]],
      ['["x"]', 4, 4, []],
    ],
  );
  assert.equal(cached([[A, salted]], tokens(5, 9)).length, 1); // of a salt under which nothing is known there is none
});

test("the group that has least is the limit, and of a sparse group it is said where it may end", () => {
  const window = (place, hash, ids, parent) =>
    stored(place, hash, ids, parent, { group: 1, kind: "sliding_window", window: 5 });
  const [a, b, c] = [window(5, "a", tokens(0), null), window(6, "b", tokens(4), "a"), window(7, "c", tokens(8), "b")];
  // a window of 5 needs one block before the end: b was removed, so c alone is enough for 12, and a for 4
  const [one] = cached(
    [
      [A, B, C, a, b, c],
      [removed(6, "b"), removed(5, "a")],
    ],
    tokens(0, 13),
    2,
  );
  assert.deepEqual([one.hit, one.limit], [12, null]);
  const [other] = cached(
    [
      [A, B, C, a, b, c],
      [removed(7, "c"), removed(6, "b")],
    ],
    tokens(0, 13),
    2,
  );
  assert.deepEqual([other.hit, other.limit.group.id, other.groups.map((each) => each.tokens)], [4, 1, [12, 4]]);
  const state = (place, hash) => ({ ...stored(place, hash, [], null, MAMBA), parent_unsaid: true });
  const [sparse] = cached([[A, B, C, state(8, "b")]], tokens(0, 13));
  assert.deepEqual([sparse.hit, sparse.limit.group.kind, sparse.limit.tokens], [8, "mamba", 8]);
  const [unsaid] = cached([[A, B, C, state(8, "q")]], tokens(0, 13)); // of other prompts: which, was not said
  assert.deepEqual([unsaid.hit, unsaid.groups.map((each) => each.tokens)], [12, [12, null]]);
});

test("contents before a gap are unknown", () => {
  const gap = { type: "known_since", epoch: 0, sequence: 9, reason: "gap" };
  const [one] = cached([[A, B], [gap]], tokens(0, 9), 2);
  assert.deepEqual([one.hit, one.known, one.next], [0, 8, "gone"]);
});

test("what was outside the GPUs when their cache was cleared is counted as unknown", () => {
  const outside = stored(0, "a", tokens(0), null, { medium: "CPU", outside: true });
  const cleared = { type: "known_since", epoch: 0, sequence: 9, reason: "cleared" };
  const [rank] = ranksOf(logOf([[A, outside, B], [cleared], [cleared]]));
  assert.deepEqual(
    rank.since.map(({ reason, outside: count }) => [reason, count]),
    [
      ["cleared", 1],
      ["cleared", 0],
    ],
  );
});

test("ids are numbers, an array, or what /tokenize answers", () => {
  assert.deepEqual(idsIn(" 1, 2\n3;4 "), [1, 2, 3, 4]);
  assert.deepEqual(idsIn("7"), [7]);
  assert.deepEqual(idsIn("[1, 2]"), [1, 2]);
  assert.deepEqual(idsIn('{"count": 2, "tokens": [5, 6], "max_model_len": 9}'), [5, 6]);
  for (const text of ["", "once upon", "1 -2", "[1.5]", '{"tokens": "x"}', "null", "[]"])
    assert.equal(idsIn(text), null);
});
