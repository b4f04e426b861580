// The prefix cache as a tree: held to a recount of the state, and to every lookup that the engine made.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { hashKey } from "../../static/js/core/cached_contents.js";
import { parseTrace } from "../../static/js/core/file.js";
import { instanceCount } from "../../static/js/core/instances.js";
import { TraceLog } from "../../static/js/core/log.js";
import { branchesOf, rowsOf } from "../../static/js/core/prefix_branches.js";
import { wouldHit } from "../../static/js/core/prefix_hit.js";
import { prefixTree } from "../../static/js/core/prefix_tree.js";
import { answer, queried } from "../../static/js/panels/prefix/ask.js";
import { drawing, own } from "../../static/js/state/store.js";
import { evicted, hybrid, logOf, reused, shared } from "./histories.mjs";
import { bytes, op } from "./log_builder.mjs";
import { lookupsAgree } from "./prefix_lookups.mjs";

const FOLDERS = ["tests/golden", "static/recordings", "tests/js/museum"];
const TRACES = FOLDERS.flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".kvtrace"))
    .filter((name) => !name.endsWith("-faulty.kvtrace")) // there blocks and lookups are wrong, on purpose
    .map((name) => `${folder}/${name}`),
);

function read(path) {
  const trace = parseTrace(readFileSync(path));
  const log = new TraceLog(trace.header);
  for (const record of trace.records) log.append(record);
  return log;
}

const treeAt = (log, index) => prefixTree(log, log.stateAt(index));
const all = (tree) => [...tree.byHash.values()];

for (const path of TRACES)
  test(`the tree of ${path} has every cached block once, below what comes before it`, () => {
    const log = read(path);
    for (let index = -1; index < log.length; index += Math.ceil(log.length / 40)) {
      const state = log.stateAt(index);
      const instances = [...Array(instanceCount(log.groups)).keys()];
      const trees = instances.map((instance) => prefixTree(log, state, instance));
      const cached = state.blocks.filter((block) => block.block_hash !== null);
      const inTree = trees.flatMap((tree) => all(tree).flatMap(({ blocks }) => blocks.map((block) => block.block_id)));
      assert.deepEqual(
        inTree.sort((a, b) => a - b),
        cached.map((block) => block.block_id),
      );
      const sum = (name) => trees.reduce((total, tree) => total + tree[name], 0);
      assert.equal(sum("held"), cached.filter((block) => block.ref_count > 0).length);
      assert.equal(sum("reusable"), cached.length - sum("held"));
      for (const { blocks, content, parent, children } of trees.flatMap(all)) {
        for (const block of blocks) {
          // of a monitored server's larger blocks, and of those of which it said them later, the state has none
          const isUnsaid = log.header.observed && !block.token_ids.length;
          if (!isUnsaid) assert.deepEqual(block.token_ids, content.tokens);
          assert.equal(hashKey(block.block_hash), content.hash);
        }
        if (parent || !log.header.observed) assert.equal(content.parent, parent?.hash ?? null);
        if (parent || !log.header.observed) assert.equal(content.logical, parent ? parent.content.logical + 1 : 0);
        assert.ok(blocks.length || children.length, "a content that is gone is there only for what follows it");
      }
      for (const tree of trees) {
        const rows = rowsOf(branchesOf(tree.roots), new Set(), new Set());
        assert.equal(
          rows.reduce((total, row) => total + row.nodes.length, 0),
          tree.byHash.size,
        );
      }
    }
  });

for (const path of TRACES)
  test(`who would hit in ${path} is who hit`, () => {
    const { verdicts, wrong } = lookupsAgree(read(path));
    assert.deepEqual(wrong, []);
    if (path.includes("prefix")) assert.ok(verdicts.hit > 0);
  });

test("two that begin alike share a block, which is held by both", () => {
  const tree = treeAt(shared(), 3);
  assert.equal(tree.roots.length, 1);
  const [root] = tree.roots;
  assert.deepEqual([root.kind, root.refs, root.blocks[0].block_id, root.findable], ["held", 2, 0, true]);
});

test("content without owners is reusable until it is evicted, and then shows its eviction", () => {
  assert.equal(treeAt(reused(), 1).roots[0].kind, "reusable");
  const log = evicted();
  const after = log.stateAt(3);
  const tree = prefixTree(log, after);
  assert.deepEqual(tree.roots, []);
  const hit = wouldHit(log, tree, after, [1, 2, 9]);
  assert.deepEqual([hit.end, hit.tokens, hit.most], ["evicted", 0, 1]);
  assert.deepEqual(hit.eviction, { record: 3, block: 0, seq: null });
  const before = log.stateAt(2);
  assert.equal(wouldHit(log, prefixTree(log, before), before, [1, 2, 9]).tokens, 2);
});

test("a hit ends for a reason", () => {
  const log = shared();
  const state = log.stateAt(3);
  const end = (tokens, salt) => wouldHit(log, prefixTree(log, state), state, tokens, salt).end;
  assert.equal(end([1, 2]), "too_short"); // two tokens in blocks of two: the last one is computed
  assert.equal(end([1, 2, 3]), "all");
  assert.equal(end([1, 9, 3]), "differs");
  assert.equal(end([8, 9, 3]), "nothing");
  assert.equal(end([1, 2, 3], "s"), "other_salt");
});

test("behind a window a block can be hit whose beginning is gone", () => {
  const log = hybrid();
  const state = log.stateAt(2); // blocks 4 and 5 are let go, and still cached
  const whole = wouldHit(log, prefixTree(log, state), state, [1, 2, 3, 4, 9]);
  assert.equal(whole.tokens, 0); // its two groups have other names for the same tokens: no chain goes on
});

/** A chain of `n` blocks of two tokens that one sequence computes and leaves, and one of `m` more that forks off it. */
function forest(n, m) {
  const tokens = (from, count) => Array.from({ length: 2 * count }, (_, i) => from + i);
  const chain = (seq, first, count, names, parent, ids) =>
    Array.from({ length: count }, (_, i) => ({
      ...op.cache(seq, first + i, i, names + i, ids.slice(2 * i, 2 * i + 2)),
      parent_hash: i ? bytes(names + (i - 1)) : parent,
    }));
  const ids = [...tokens(100, n), 1];
  const other = [...tokens(100, n), ...tokens(500, m), 1];
  const blocks = (seq, from, count, at = 0) =>
    Array.from({ length: count }, (_, i) => op.allocate(seq, from + i, at + i));
  return logOf(
    [
      { kind: "submit", ops: [op.submit(0, ids), op.submit(1, other)] },
      {
        batch: [op.entry(0, "prefill", 0, ids)],
        ops: [
          op.admit(0),
          ...blocks(0, 0, n + 1),
          ...chain(0, 0, n, "a", null, ids),
          op.write(0, 0, 2 * n + 1),
          op.sample(0),
        ],
      },
      {
        batch: [op.entry(1, "prefill", 2 * n, other.slice(2 * n))],
        ops: [
          op.admit(1, 2 * n),
          ...Array.from({ length: n }, (_, i) => op.share(1, i, i, false)),
          ...blocks(1, n + 1, m + 1, n),
          ...chain(1, n + 1, m, "b", bytes(`a${n - 1}`), other.slice(2 * n)).map((one, i) => ({
            ...one,
            logical: n + i,
          })),
          op.write(1, 2 * n, 2 * m + 1),
          op.sample(1),
        ],
      },
    ],
    { num_blocks: n + m + 4 },
  );
}

test("contents without a fork and with equal holders form one row", () => {
  const tree = treeAt(forest(5, 3), 2);
  const branches = branchesOf(tree.roots);
  assert.deepEqual(
    branches.map(({ nodes, children }) => [nodes.length, children.map((child) => child.nodes.length)]),
    [[5, [3]]],
  );
  assert.deepEqual([branches[0].nodes[0].refs, branches[0].children[0].nodes[0].refs], [2, 1]);
  const [row, child] = rowsOf(branches, new Set(), new Set());
  assert.deepEqual([row.level, row.open, child.level, child.parent, child.open], [1, true, 2, 0, false]);
  assert.equal(rowsOf(branches, new Set([row.id]), new Set()).length, 1);
  const out = rowsOf(branches, new Set(), new Set([row.id]));
  assert.deepEqual(
    out.map(({ single, level, place, of }) => [single, level, place, of]),
    [[false, 1, 1, 1], ...[1, 2, 3, 4, 5].map((place) => [true, 2, place, 6]), [false, 2, 6, 6]],
  );
});

test("a beginning of five thousand blocks is no deep call", () => {
  const tree = treeAt(forest(5000, 2), 2);
  assert.deepEqual(
    rowsOf(branchesOf(tree.roots), new Set(), new Set()).map((row) => row.nodes.length),
    [5000, 2],
  );
});

test("no hit is predicted where a head or layer is off", () => {
  const answers = (ablate) => {
    const log = shared();
    Object.assign(log.header.engine, { ablate });
    own.log.value = log;
    own.numRecords.value = log.length;
    queried.value = { text: "a", tokens: [1, 2, 5] };
    return [0, 1, 2].map((index) => {
      drawing.value = index;
      return answer.value?.path.length ?? null;
    });
  };
  assert.deepEqual(answers(null), [0, 1, 1]);
  assert.deepEqual(answers("1.0@0"), [null, null, null]);
  assert.deepEqual(answers("2.1@9 0@2"), [0, null, null]); // from before record 2 on
});
