import assert from "node:assert/strict";
import { test } from "node:test";
import { ownersOf } from "../../static/js/core/provenance/links.js";
import { writeProgress } from "../../static/js/kit/anchors.js";
import { poolLayout } from "../../static/js/panels/memory/pool_layout.js";
import { movingLook, restingLook } from "../../static/js/panels/memory/pool_look.js";
import {
  becomingShared,
  motionsOf,
  movingQueues,
  progressOf,
  travelling,
} from "../../static/js/panels/memory/pool_motion.js";
import { runsOf } from "../../static/js/panels/memory/queue.js";
import { phaseProgress } from "../../static/js/state/playhead.js";
import { evicted, forked, hybrid, loaded, logOf, preempted, released, reused, shared } from "./histories.mjs";
import { op } from "./log_builder.mjs";

const RUNS = { evicted, forked, hybrid, loaded, preempted, released, reused, shared };

/** The look of a block of `state` while nothing moves. */
const lookOf = (state, id) =>
  restingLook(
    state.blocks[id],
    ownersOf({ state }, id)
      .map((o) => o.seq)
      .sort(),
    state.block_size,
  );

/** A look without what only a motion has, in an order that can be compared. */
const plain = (look) => ({
  ...look,
  owners: look.owners.map((o) => [o.seq, o.share]).sort(),
  fresh: undefined,
  renewed: undefined,
});

/** Looks of all blocks when record `index` is shown as far as `at` (0…6). */
function looksAt(log, index, at) {
  const before = log.stateAt(index - 1);
  const motions = motionsOf(before, log.records[index]);
  const phases = phaseProgress(at);
  const found = before.blocks.map((block) =>
    movingLook(lookOf(before, block.block_id), motions.get(block.block_id) ?? [], phases),
  );
  return { before, motions, phases, looks: found };
}

/** Block groups of so many blocks. */
const pool = (...counts) =>
  counts.map((num_blocks, i) => ({ first_block: counts.slice(0, i).reduce((sum, n) => sum + n, 0), num_blocks }));

test("every record begins as the state before it and ends as the state after it: blocks and free queues", () => {
  for (const [name, run] of Object.entries(RUNS)) {
    const log = run();
    for (let index = 1; index < log.length; index++) {
      for (const [at, state] of [
        [0, log.stateAt(index - 1)],
        [6, log.stateAt(index)],
      ]) {
        const { before, motions, phases, looks } = looksAt(log, index, at);
        looks.forEach((look, id) =>
          assert.deepEqual(plain(look), plain(lookOf(state, id)), `${name}, record ${index} at ${at}, block ${id}`),
        );
        assert.deepEqual(movingQueues(before, motions, phases), state.free_queues, `${name}, record ${index} at ${at}`);
      }
    }
  }
});

test("when a phase is over, every motion of it is, however many share its time", () => {
  for (let count = 1; count <= 40; count++) {
    const log = logOf(
      [
        {
          kind: "submit",
          ops: [
            op.submit(
              0,
              Array.from({ length: 2 * count }, () => 1),
            ),
          ],
        },
        {
          ops: [
            op.admit(0),
            ...Array.from({ length: count }, (_, id) => op.allocate(0, id, id)),
            op.write(0, 0, 2 * count),
          ],
        },
      ],
      { num_blocks: count },
    );
    const motions = [...motionsOf(log.stateAt(0), log.records[1]).values()].flat();
    for (const motion of motions) assert.equal(progressOf(motion, phaseProgress(6)), 1, `${count} blocks`);
  }
});

test("levels and shares stay in [0, 1] on the way", () => {
  for (const run of Object.values(RUNS)) {
    const log = run();
    for (let index = 1; index < log.length; index++)
      for (let at = 0; at <= 6; at += 0.07)
        for (const look of looksAt(log, index, at).looks)
          for (const value of [look.held, look.hash, ...look.fill, ...look.owners.map((o) => o.share)])
            assert.ok(value >= 0 && value <= 1);
  }
});

test("an evicted block loses its hash before it is taken", () => {
  const log = evicted();
  const [evict, allocate] = looksAt(log, 3, 0).motions.get(0).slice(0, 2);
  assert.deepEqual([evict.op.type, allocate.op.type], ["evict", "allocate"]);
  for (let at = 1; at <= 2; at += 0.01) {
    const phases = phaseProgress(at);
    if (progressOf(allocate, phases) > 0) assert.equal(progressOf(evict, phases), 1);
  }
});

test("a preempted sequence leaves its block before the other takes it", () => {
  const log = preempted();
  const { looks } = looksAt(log, 2, 1); // the scheduler has decided, nothing is allocated yet
  assert.deepEqual([looks[1].held, looks[1].owners], [0, []]);
  const { looks: taken } = looksAt(log, 2, 2);
  assert.deepEqual(taken[1].owners, [{ seq: 0, share: 1 }]);
  assert.deepEqual(taken[1].fill, [0, 0]); // written in a later phase
});

test("a copy splits: the source loses the writer's colour as the copy fills", () => {
  const log = forked();
  const { looks, motions, phases } = looksAt(log, 2, 1.3);
  assert.deepEqual(
    travelling(motions, phases).map((m) => [m.kind, m.block]),
    [["split", 2]],
  );
  const share = looks[1].owners.find((o) => o.seq === 0).share;
  assert.ok(share > 0 && share < 1);
  assert.equal(looks[1].owners.find((o) => o.seq === 1).share, 1);
  assert.ok(Math.abs(looks[2].fill[0] - (1 - share)) < 1e-9);
  assert.equal(looks[2].fill[1], 0);
});

test("a slot fills in the phase write, when its K and V land in it, one after the other", () => {
  const log = shared();
  assert.deepEqual(looksAt(log, 1, 3).looks[0].fill, [0, 0]);
  assert.deepEqual(looksAt(log, 1, 3.4).looks[0].fill, [0, 0]); // 40 % of the time: they are under way
  const [first, second] = looksAt(log, 1, 3.55).looks[0].fill; // the first has flown 0.55 / 0.6 of its way
  assert.ok(first > 0 && first < 1 && second === 0);
  assert.deepEqual([...looksAt(log, 1, 4).looks[0].fresh], [0, 1]);
});

test("K and V fly one position after the other, evenly, and all have landed in the end", () => {
  const at = (i, time) => writeProgress(i, 3, 1 - (1 - time) ** 3); // the phase begins fast and ends slowly
  const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
  [0.4 / 0.6, 0.2 / 0.6, 0].forEach((share, i) => near(at(i, 0.4), share));
  near(writeProgress(0, 1, 1 - 0.7 ** 3), 0.5);
  assert.deepEqual([writeProgress(0, 1, 0), writeProgress(2, 3, 1)], [0, 1]);
});

test("allocation takes blocks one after the other out of the queue's head", () => {
  const log = shared();
  const { motions } = looksAt(log, 1, 0);
  const seen = new Set();
  for (let at = 1; at < 2; at += 0.02)
    for (const m of travelling(motions, phaseProgress(at))) seen.add(`${m.kind} ${m.block}`);
  assert.deepEqual([...seen], ["take 0", "take 1"]);
});

test("a full block leaves a copy with its tier, and one that is loaded comes from there, full", () => {
  const log = loaded();
  const storing = looksAt(log, 1, 5.1);
  assert.deepEqual(
    travelling(storing.motions, storing.phases).filter((m) => m.kind === "store"),
    [
      {
        kind: "store",
        seq: null,
        medium: "cpu",
        block: 0,
        p: progressOf(storing.motions.get(0).at(-2), storing.phases),
      },
    ],
  );
  assert.deepEqual(storing.looks[0].fill, [1, 1]); // what is stored stays
  const seen = new Set();
  for (let at = 1; at < 2; at += 0.02)
    for (const m of travelling(looksAt(log, 5, at).motions, phaseProgress(at))) seen.add(`${m.kind} ${m.block}`);
  assert.deepEqual([...seen], ["take 1", "take 0", "load 1"]); // motions of two blocks overlap, those of one do not
  assert.deepEqual(looksAt(log, 5, 2).looks[1].fill, [1, 1]); // before anything is written
});

test("swapped blocks travel to the CPU store and back into fresh blocks, with what they held", () => {
  const state = (tables) => ({
    block_size: 2,
    blocks: [
      { block_id: 0, ref_count: 1, block_hash: null, token_ids: [1, 2] },
      { block_id: 1, ref_count: 0, block_hash: null, token_ids: [] },
    ],
    block_groups: [{ first_block: 0, num_blocks: 2 }],
    free_queues: [[1]],
    cpu_blocks: Array.from({ length: 6 }, (_, id) => ({ cpu_block_id: id, token_ids: id === 5 ? [1] : [] })),
    sequences: new Map(tables),
  });
  const out = motionsOf(state([[0, { block_tables: [[0]], num_computed_tokens: 2 }]]), {
    ops: [
      { type: "swap_out", seq_id: 0, logical: 0, block_id: 0, cpu_block_id: 5 },
      { type: "free", seq_id: 0, block_id: 0, to: "front" },
    ],
  });
  const phases = phaseProgress(0.2);
  assert.deepEqual(
    travelling(out, phases).map((m) => [m.kind, m.cpu_block_id]),
    [["swap_out", 5]],
  );
  const back = motionsOf(state([[0, { block_tables: [[]], num_computed_tokens: 1 }]]), {
    ops: [
      { type: "allocate", seq_id: 0, block_id: 1, logical: 0 },
      { type: "swap_in", seq_id: 0, logical: 0, block_id: 1, cpu_block_id: 5 },
    ],
  });
  const look = movingLook(
    restingLook({ ref_count: 0, block_hash: null, token_ids: [] }, [], 2),
    back.get(1),
    phaseProgress(2),
  );
  assert.deepEqual(look.fill, [1, 0]); // one token had been computed
});

test("a block is told to be shared while another table comes to point to it, not before and not after", () => {
  const log = shared();
  const index = log.records.findIndex((record) => record.ops?.some((op) => op.type === "share"));
  const { block_id } = log.records[index].ops.find((op) => op.type === "share");
  const at = (moment) => {
    const { motions, phases } = looksAt(log, index, moment);
    return becomingShared(motions, phases);
  };
  assert.deepEqual([[...at(1)], [...at(2)]], [[], []]);
  const seen = new Set();
  for (let moment = 1; moment < 2; moment += 0.02) for (const block of at(moment)) seen.add(block);
  assert.ok(seen.has(block_id));
});

test("slots can be told apart where there is room, blocks where there is not", () => {
  const levels = [
    [48, 4],
    [12, 16],
    [256, 4],
    [4096, 4],
    [1, 192],
    [4, 4096],
    [4096, 16],
  ].map(([count, size]) => poolLayout(pool(count), size, 304, 200).level);
  assert.deepEqual(levels, ["slots", "slots", "blocks", "blocks", "slots", "blocks", "blocks"]);
  assert.equal(poolLayout(pool(256), 4, 392, 460).level, "blocks");
});

test("up to some thousand blocks nothing scrolls, and nothing lies outside", () => {
  for (const [count, size] of [
    [48, 4],
    [12, 16],
    [256, 4],
    [1000, 8],
    [4096, 4],
    [1, 192],
    [3, 64],
    [7, 4096],
  ]) {
    for (const [width, height] of [
      [304, 200],
      [392, 420],
      [362, 300],
    ]) {
      const layout = poolLayout(pool(count), size, width, height);
      assert.ok(layout.height <= height, `${count} x ${size} in ${width} x ${height}: ${layout.height}`);
      for (const id of [0, layout.columns - 1, count - 1]) {
        const at = layout.blockAt(Math.min(id, count - 1));
        assert.ok(at.x >= 0 && at.x + at.width <= width && at.y + at.height <= height + 1);
      }
    }
  }
});

test("a block is hit where it is drawn, at both levels", () => {
  for (const [count, size] of [
    [48, 4],
    [12, 16],
    [256, 4],
    [4096, 4],
    [1, 192],
    [4, 4096],
  ]) {
    const layout = poolLayout(pool(count), size, 304, 200);
    for (const id of [0, 1, count >> 1, count - 1].filter((n) => n < count)) {
      const at = layout.blockAt(id);
      assert.equal(layout.hit(at.x + at.width / 2, at.y + at.height / 2).block, id);
    }
  }
});

test("a slot is hit where it is drawn, while slots can be told apart", () => {
  for (const [count, size] of [
    [48, 4],
    [12, 16],
    [1, 192],
  ]) {
    const layout = poolLayout(pool(count), size, 304, 300);
    for (const [block, slot] of [
      [0, 0],
      [count - 1, size - 1],
    ]) {
      const at = layout.slotAt(block, slot);
      assert.deepEqual(layout.hit(at.x + 2, at.y + 2), { block, offset: slot });
    }
  }
});

test("the queue is written short and names every block once, in order", () => {
  const ids = [9, 4, 5, 6, 7, 2, 1, 0, 12, 13];
  const runs = runsOf(ids, (id) => (id < 2 ? "cached" : "free"));
  assert.deepEqual(
    runs.map(({ first, last, count }) => [first, last, count]),
    [
      [9, 9, 1],
      [4, 7, 4],
      [2, 2, 1],
      [1, 1, 1],
      [0, 0, 1],
      [12, 12, 1],
      [13, 13, 1],
    ],
  );
  const named = runs.flatMap(({ first, last, count }) =>
    Array.from({ length: count }, (_, i) => first + Math.sign(last - first) * i),
  );
  assert.deepEqual(named, ids);
  assert.deepEqual(
    runsOf([5, 4, 3, 2], () => "cached").map(({ first, last }) => [first, last]),
    [[5, 2]],
  );
  assert.deepEqual(
    runsOf([], () => "free"),
    [],
  );
});
