import assert from "node:assert/strict";
import { test } from "node:test";
import { rowSources, visibleKeys } from "../../static/js/core/attention.js";
import { counterfactual } from "../../static/js/core/counterfactual.js";
import { blockGroups, bytesIfAllKept, figuresByGroup, groupOf, groupOfLayer } from "../../static/js/core/groups.js";
import { blockHistory } from "../../static/js/core/history.js";
import { operationsOf } from "../../static/js/core/operations.js";
import { ownersOf } from "../../static/js/core/provenance/links.js";
import { connectedTo, provenanceOf } from "../../static/js/core/provenance.js";
import { isReleased, originOf, sequenceViewAt } from "../../static/js/core/sequence_view.js";
import { memoryFigures } from "../../static/js/core/state.js";
import { keysRead, sentencesOf } from "../../static/js/i18n/sentence.js";
import { poolLayout } from "../../static/js/panels/memory/pool_layout.js";
import { phaseSentencesOf } from "../../static/js/panels/transport/phase_sentence.js";
import { hybrid, logOf, released } from "./histories.mjs";
import { op } from "./log_builder.mjs";
import "./words.mjs";

const of = (chain, kind) => chain.links.find((link) => link.kind === kind);
const all = (chain, kind) => chain.links.filter((link) => link.kind === kind);

test("a log that names no groups has one of all layers", () => {
  const [group, ...others] = released().groups;
  assert.deepEqual(
    [
      others.length,
      group.layers,
      group.first_block,
      group.num_blocks,
      group.window,
      group.sinks,
      group.kv_bytes_per_token,
    ],
    [0, [0], 0, 4, null, 0, 16],
  );
});

test("a block says its group, a layer too", () => {
  const { groups } = hybrid();
  assert.deepEqual(
    [0, 3, 4, 6, 7, -1].map((id) => groupOf(groups, id)),
    [0, 0, 1, 1, -1, -1],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((layer) => groupOfLayer(groups, layer, 0)),
    [1, 0, 1, 0],
  );
  assert.equal(blockGroups(hybrid().header)[1].window, 2);
});

test("out-of-order blocks and writes to released ones are refused", () => {
  const header = hybrid().header;
  const more = { model: header.model, block_groups: header.block_groups };
  const run = (...ops) =>
    logOf([{ kind: "submit", ops: [op.submit(0, [1, 2, 3])] }, { ops: [op.admit(0), ...ops] }], {}, more);
  run(op.allocate(0, 4, 0), op.allocate(0, 0, 0), op.write(0, 0, 2));
  assert.throws(() => run(op.allocate(0, 5, 0)), /block 5 is not the head/);
  assert.throws(() => run(op.allocate(0, 4, 1)), /would leave a hole/);
  assert.throws(() => run(op.allocate(0, 0, 0), op.write(0, 0, 2)), /contradicts the state/); // the other group has no block for it
  const apart = header.block_groups.map((group, i) => ({ ...group, first_block: group.first_block + i }));
  assert.throws(() => logOf([], {}, { ...more, block_groups: apart }), /do not follow each other/);
});

test("figures are added over the groups, with each one's own bytes", () => {
  const state = hybrid().stateAt(2);
  const figures = figuresByGroup(state);
  assert.deepEqual(
    figures.map((f) => [f.blocks_held, f.blocks_cached, f.tokens_held, f.bytes_held]),
    [
      [3, 0, 6, 192],
      [1, 2, 2, 64],
    ],
  );
  const m = memoryFigures(state);
  assert.deepEqual(
    [m.num_blocks, m.blocks_held, m.blocks_cached, m.blocks_free, m.tokens_held, m.tokens_logical],
    [7, 4, 2, 1, 8, 8],
  );
  assert.deepEqual([m.bytes_held, m.bytes_used, m.bytes_cached], [256, 256, 128]);
  assert.equal(bytesIfAllKept(state, figures), 3 * 2 * 64);
  assert.equal(bytesIfAllKept(released().stateAt(1), figuresByGroup(released().stateAt(1))), null); // nothing to compare with
  const uneven = {
    ...state,
    block_groups: state.block_groups.map((group, i) => ({ ...group, kv_bytes_per_token: i ? 8 : 32 })),
  };
  assert.equal(memoryFigures(uneven).bytes_held, 3 * 2 * 32 + 1 * 2 * 8);
});

test("a key is followed in the table of the shown layer's group", () => {
  const log = hybrid();
  const at = (layer, position) => provenanceOf(log, 1, { position, seq: 0 }, { seq: 0, layer, head: 0 });
  const [full, windowed] = [at(1, 3), at(0, 3)];
  assert.deepEqual([of(full, "slot").slot, of(full, "slot").block, of(full, "table").layers], [3, 1, [1, 3]]);
  assert.deepEqual(
    [of(windowed, "slot").slot, of(windowed, "slot").block, of(windowed, "table").layers],
    [11, 5, [0, 2]],
  );
  assert.deepEqual([of(windowed, "bytes").bytes, of(windowed, "bytes").num_layers], [32, 2]);
  assert.deepEqual([...connectedTo(log, 1, { position: 3, seq: 0 }, { seq: 0, layer: 2, head: 0 }).blocks], [5]);
  assert.deepEqual(of(windowed, "decision").layers, [0, 2]);
});

test("a key that a windowed layer released is shown so, with the layers that still have it", () => {
  const log = hybrid();
  const chain = provenanceOf(log, 2, { position: 1, seq: 0 }, { seq: 0, layer: 0, head: 0 });
  const { layers, window, kept, block, select } = of(chain, "released");
  assert.deepEqual([layers, window, kept, block, select], [[0, 2], 2, [1, 3], 0, { block: 0 }]);
  assert.equal(of(chain, "nowhere"), undefined);
  const unseen = (layer, position) =>
    of(provenanceOf(log, 2, { position, seq: 0 }, { seq: 0, layer, head: 0 }), "weight").unseen;
  assert.deepEqual([unseen(0, 1), unseen(0, 4), unseen(1, 1)], [true, false, false]);
  assert.equal(of(provenanceOf(log, 2, { position: 1, seq: 0 }, { seq: 0, layer: 1, head: 0 }), "slot").slot, 1);
  const [windowed, full] = [0, 1].map((layer) => sequenceViewAt(log, 2, 0, layer, 0));
  assert.deepEqual([isReleased(windowed, 1), isReleased(full, 1), isReleased(windowed, 5)], [true, false, false]);
  assert.deepEqual([originOf(windowed, 1), originOf(full, 1).record], [null, 1]);
});

test("the origin of a row that a hit skipped is known from any group that still has the key", () => {
  const log = hybrid();
  const sources = rowSources(sequenceViewAt(log, 4, 1, 0, 0)).map((source) => [source.seq_id, source.position]);
  assert.deepEqual(sources, [
    [0, 0],
    [0, 1],
    [0, 2],
    [0, 3],
    [1, 4],
  ]); // 0 and 1 by the layers with full attention
});

test("a sequence has its blocks and bytes in each group, and a figure its parts", () => {
  const log = hybrid();
  const chain = provenanceOf(log, 2, { seq: 0 });
  assert.deepEqual(
    all(chain, "blocks").map((link) => [link.layers, link.blocks]),
    [
      [
        [1, 3],
        [0, 1, 2],
      ],
      [[0, 2], [6]],
    ],
  );
  assert.deepEqual(
    all(chain, "bytes").map((link) => link.bytes),
    [192, 64],
  );
  const held = provenanceOf(log, 2, { figure: "held" });
  assert.deepEqual([of(held, "figure").bytes, of(held, "figure").terms.map((term) => term.bytes)], [256, [192, 64]]);
  assert.deepEqual(
    all(held, "part").map((link) => [link.layers, link.bytes]),
    [
      [[1, 3], 192],
      [[0, 2], 64],
    ],
  );
  assert.equal(of(provenanceOf(released(), 1, { seq: 0 }), "blocks").layers, undefined);
});

test("operations on different groups are described with their layers", () => {
  const told = operationsOf(hybrid(), 1).filter((entry) => entry.type === "allocate");
  assert.deepEqual(
    told.map((entry) => [entry.group, entry.parts[0][1].block_id, entry.layers]),
    [
      [0, [0, 1, 2], [1, 3]],
      [1, [4, 5, 6], [0, 2]],
    ],
  );
  assert.ok(operationsOf(released(), 1).every((entry) => entry.layers === null));
});

test("sentences state what each group read, allocated and wrote", () => {
  const log = hybrid();
  const also = sentencesOf(log, 2, 0).find(([key]) => key === "group.also_decode");
  assert.deepEqual(also[1], { layers: [0, 2], keys: 2, blocks: 1, block: 6, slot: 1 }); // positions 4 and 5
  const told = (phase, index) => phaseSentencesOf(log, index, phase, 0);
  const taken = told("allocate", 1).map(([, { block_ids, before, after, within }]) => [
    block_ids,
    before,
    after,
    within,
  ]);
  assert.deepEqual(taken, [
    [[0, 1, 2], 4, 1, [1, 3]],
    [[4, 5, 6], 3, 0, [0, 2]],
  ]);
  assert.deepEqual(
    told("attend", 2)
      .slice(0, 2)
      .map(([, { keys, blocks, layers }]) => [keys, blocks, layers]),
    [
      [6, 3, 2],
      [2, 1, [0, 2]],
    ],
  );
  assert.deepEqual(
    told("write", 2)
      .slice(0, 2)
      .map(([, { block, layers }]) => [block, layers]),
    [
      [2, 2],
      [6, [0, 2]],
    ],
  );
});

test("a write fills a block of every group; a fork shares them all", () => {
  const log = hybrid();
  for (const block of [2, 6])
    assert.deepEqual(
      blockHistory(log, block, 2)
        .filter((e) => e.op.type === "write")
        .map((e) => [e.record, e.from, e.to]),
      [
        [1, 0, 1],
        [2, 1, 2],
      ],
    );
  assert.deepEqual(ownersOf({ state: log.stateAt(4) }, 5), [{ seq: 1, logical: 1 }]);
});

test("every n-th layer of a pattern keeps all keys", () => {
  const engine = { attention_window: 2, attention_sinks: 1, sliding_window_pattern: 2 };
  const model = { sliding_windows: [null, null, null] };
  assert.deepEqual(
    [0, 1, 2].map((layer) => visibleKeys({ model, engine }, layer, 4)),
    [
      [0, 3, 4],
      [0, 1, 2, 3, 4],
      [0, 3, 4],
    ],
  );
  assert.deepEqual(visibleKeys({ model, engine: { ...engine, sliding_window_pattern: null } }, 1, 4), [0, 3, 4]);
  assert.equal(keysRead({ header: { model, engine } }, 100), 100);
  assert.equal(keysRead({ header: { model, engine: { ...engine, sliding_window_pattern: null } } }, 100), 3);
});

test("reserved in one piece a request takes slots of all layers; what it pages is counted in such slots", () => {
  const log = hybrid();
  const header = { ...log.header, engine: { ...log.header.engine, max_model_len: 3 } };
  const other = counterfactual(header, log.stateAt(2));
  assert.equal(other.pool_slots, (4 * 2 * 32 + 3 * 2 * 32) / 64); // 7
  assert.deepEqual([other.fit, other.paged_slots, other.requests[0].paged], [2, 4, 4]);
});

test("groups lie below each other, each under its title, on one grid; arrows walk over all", () => {
  const groups = hybrid().groups.map((group, i) => ({ ...group, num_blocks: [20, 12][i], first_block: [0, 20][i] }));
  for (const [width, height] of [
    [304, 300],
    [392, 420],
  ]) {
    const layout = poolLayout(groups, 4, width, height);
    assert.equal(layout.titles.length, 2);
    assert.ok(layout.height <= height);
    for (let id = 0; id < 32; id++) {
      const at = layout.blockAt(id);
      assert.equal(layout.hit(at.x + at.width / 2, at.y + at.height / 2).block, id);
    }
    const last = layout.blockAt(19);
    assert.ok(layout.titles[1].top >= last.y + last.height && layout.blockAt(20).y >= layout.titles[1].top + 12);
    assert.equal(layout.neighbour(19, "ArrowRight"), 20);
    assert.equal(layout.neighbour(31, "ArrowRight"), null);
    assert.equal(layout.neighbour(20, "ArrowUp") % layout.columns, 0);
    assert.ok(layout.neighbour(20, "ArrowUp") < 20);
    assert.equal(layout.neighbour(0, "ArrowUp"), null);
  }
  assert.deepEqual(poolLayout([groups[0]], 4, 304, 300).titles, []);
  for (const height of [120, 200])
    assert.ok(
      poolLayout(
        [
          { first_block: 0, num_blocks: 900 },
          { first_block: 900, num_blocks: 100 },
        ],
        16,
        304,
        height,
      ).height <= height,
    );
});

test("the pools of two instances stand side by side, or below each other where that is too narrow", () => {
  const groups = [0, 1].flatMap((instance) =>
    [20, 12].map((num_blocks, i) => ({ instance, num_blocks, first_block: 32 * instance + 20 * i })),
  );
  for (const width of [304, 392, 700]) {
    const layout = poolLayout(groups, 4, width, 420);
    const centres = [];
    for (let id = 0; id < 64; id++) {
      const at = layout.blockAt(id);
      centres.push(`${at.x},${at.y}`);
      assert.ok(at.x >= 0 && at.x + at.width <= width);
      assert.equal(layout.hit(at.x + at.width / 2, at.y + at.height / 2).block, id);
      const slot = layout.slotAt(id, 3);
      assert.ok(slot.x >= at.x && slot.x + slot.width <= at.x + at.width + 1);
    }
    assert.equal(new Set(centres).size, 64);
    const [one, , other] = layout.titles;
    assert.ok(one.top === other.top && other.left >= one.left + one.width && other.left + other.width <= width);
    assert.deepEqual([layout.neighbour(31, "ArrowRight"), layout.neighbour(63, "ArrowRight")], [32, null]);
    assert.equal(layout.neighbour(32, "ArrowDown"), layout.neighbour(0, "ArrowDown") + 32);
    assert.deepEqual([layout.neighbour(32, "ArrowUp"), layout.neighbour(32, "Home")], [null, null]);
  }
  const { titles } = poolLayout(groups, 4, 250, 900);
  assert.ok(titles[2].left === 0 && titles[2].top > titles[1].top, "below");
});

test("two pools of 24 and 8 blocks show their slots beside a stage of 1280 × 800", () => {
  const groups = [
    { first_block: 0, num_blocks: 24 },
    { first_block: 24, num_blocks: 8 },
  ];
  const layout = poolLayout(groups, 4, 303, 173); // 4 + 2 rows of 12 + 7 + 3, two titles of 20
  assert.deepEqual([layout.level, layout.columns, layout.height], ["slots", 7, 172]);
});
