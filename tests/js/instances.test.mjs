// A log of three instances: the instance of each item, transfers, and the times of a request.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { parseTrace } from "../../static/js/core/file.js";
import { flowOf } from "../../static/js/core/flow.js";
import { bytesIfAllKept, figuresByGroup, groupOf, groupOfLayer } from "../../static/js/core/groups.js";
import { blockHistory } from "../../static/js/core/history.js";
import { instanceName, ownAtCompute, ownGroups, recordBefore } from "../../static/js/core/instances.js";
import { TraceLog } from "../../static/js/core/log.js";
import { provenanceOf } from "../../static/js/core/provenance.js";
import { RequestParts } from "../../static/js/core/request_parts.js";
import { barOf, segmentsOf } from "../../static/js/core/request_phases.js";
import { requestFigures, tracksOfParts } from "../../static/js/core/requests.js";
import { sequenceViewAt, vectorOf } from "../../static/js/core/sequence_view.js";
import { sequenceRows } from "../../static/js/core/series.js";
import { timelineOf } from "../../static/js/core/timeline.js";
import { cellAt, tracksOf } from "../../static/js/core/tracks.js";
import { op } from "./log_builder.mjs";

const trace = parseTrace(readFileSync(new URL("../golden/instances.kvtrace", import.meta.url)));
const log = new TraceLog(trace.header);
trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
const { records } = log;
const opsOf = (type) =>
  records.flatMap(({ index, ops }) => ops.flatMap((op) => (op.type === type ? [[index, op]] : [])));
const instanceOf = (seq) => log.tail.sequences.get(seq).instance;

test("the trace covers its cases", () => {
  assert.deepEqual(
    log.header.instances.map(({ name }) => name),
    ["prefill-0", "decode-0", "mixed-0"],
  );
  for (const type of ["await", "receive", "arrive", "hold", "send", "transfer_failed", "lost"])
    assert.ok(opsOf(type).length > 0, type);
  assert.equal(instanceName(log.header, 1), "decode-0");
  assert.equal(instanceName({ instances: [{ name: "alone" }] }, 0), "", "one needs no name");
});

test("a layer's group is that of the sequence's instance", () => {
  for (const { index, batch } of records)
    for (const { seq_id: seq } of batch) {
      const view = sequenceViewAt(log, index, seq, 1, 0);
      assert.equal(log.groups[view.group].instance, records[index].instance);
      assert.ok(view.table.length > 0, "it was computed, so it has blocks there");
      const { groups, tables } = ownAtCompute(log, index, seq);
      assert.ok(groups.every(({ instance }) => instance === instanceOf(seq)));
      assert.ok(tables.every(({ length }) => length > 0));
    }
  assert.deepEqual(ownGroups(log.groups, 2), [4, 5]);
  assert.equal(log.groups[groupOfLayer(log.groups, 1, 2)].layers.includes(1), true);
});

test("the record before is the instance's own", () => {
  for (const { index, instance } of records) {
    const before = recordBefore(log, index);
    assert.ok(before < 0 || records[before].instance === instance);
    assert.ok(records.slice(before + 1, index).every((record) => record.instance !== instance));
  }
});

test("what was received was computed where the sender's record says, with its arrays", () => {
  let seen = 0;
  for (const [index, op] of opsOf("receive")) {
    const size = log.tail.block_size;
    for (let offset = 0; offset < op.num_tokens; offset++) {
      const origin = log.slotOrigin(op.block_id * size + offset, index);
      assert.deepEqual(origin.loaded, { record: index, medium: "instance", here: true, from: op.from_block_id });
      assert.equal(origin.position, op.logical * size + offset);
      assert.notEqual(instanceOf(origin.seq_id), instanceOf(op.seq_id));
      const there = log.stateAt(index).sequences.get(origin.seq_id).token_ids[origin.position];
      assert.equal(there, log.stateAt(index).sequences.get(op.seq_id).token_ids[origin.position], "the same token");
      const { layers } = log.groups[groupOf(log.groups, op.block_id)];
      const view = sequenceViewAt(log, index, op.seq_id, layers[0], 0);
      const own = log
        .layer(origin.record, layers[0])
        .k.row(log.packedIndex(origin.record, origin.seq_id, origin.position), view.kvHead);
      assert.deepEqual(vectorOf(view, "k", origin.position), own);
      seen += 1;
    }
  }
  assert.ok(seen > 40);
});

test("a received key leads through its block to the record that computed it", () => {
  const [index, op] = opsOf("receive")[0];
  const position = op.logical * log.tail.block_size;
  const [layer] = log.groups[groupOf(log.groups, op.block_id)].layers;
  const { links } = provenanceOf(log, index, { seq: op.seq_id, position }, { seq: op.seq_id, layer });
  const of = (kind) => links.find((link) => link.kind === kind);
  const [, arrived] = opsOf("arrive").find(([at, { seq_id: seq }]) => at === index && seq === op.seq_id);
  const { go, bytes, link, seconds, src, from, to, select } = of("moved");
  assert.deepEqual([go, bytes, src, select], [index, op.num_bytes, op.from_block_id, { block: op.from_block_id }]);
  assert.deepEqual([link, seconds], [arrived.link, arrived.ended - arrived.began]);
  assert.deepEqual([from, to], ["prefill-0", "decode-0"]);
  assert.equal(records[of("written").go].instance, 0);
  assert.deepEqual([instanceOf(of("written").seq), of("written").instance], [0, "prefill-0"]);
  assert.ok(links.indexOf(of("moved")) < links.indexOf(of("written")), "the way back");
});

test("tracks: sequences that wait for blocks, hold them, or ended with their instance", () => {
  const { byId, columns } = tracksOf(log);
  for (const [index, op] of opsOf("await")) assert.equal(cellAt(byId.get(op.seq_id), index).kind, "receiving");
  for (const [index, op] of opsOf("hold")) {
    const track = byId.get(op.seq_id);
    assert.ok(track.to === index && track.left > index, "it has finished, and is not gone");
    assert.equal(cellAt(track, index + 1).kind, "holding");
  }
  for (const [index] of opsOf("lost")) {
    const gone = [...byId.values()].filter(
      ({ instance, left }) => instance === records[index].instance && left === index,
    );
    assert.ok(gone.length > 0);
  }
  for (const { index, instance } of records) {
    const { waiting, receiving, running, sequences } = log.stateAt(index);
    const own = (queue) => queue.filter((id) => sequences.get(id).instance === instance).length;
    assert.deepEqual([columns[index].running, columns[index].waiting], [own(running), own(waiting) + own(receiving)]);
  }
});

test("a request that two instances had is one row, and its time has no part twice", () => {
  const { rows, seconds } = requestFigures(log);
  assert.equal(new Set(rows.map(({ request }) => request)).size, rows.length);
  assert.ok(rows.every(({ request }) => !request.includes("/")));
  assert.deepEqual(
    rows.flatMap(({ parts }) => parts).sort((a, b) => a - b),
    [...log.tail.sequences.keys()].sort((a, b) => a - b),
  );
  assert.ok(rows.every(({ parts }) => parts.length === 2));
  const bytes = opsOf("arrive").reduce((sum, [, op]) => sum + op.num_bytes, 0);
  assert.equal(
    rows.reduce((sum, row) => sum + row.moved, 0),
    bytes,
  );
  for (const row of rows) {
    const tracks = tracksOfParts(log, row.parts);
    const segments = segmentsOf(log, tracks);
    for (const [i, { begin, end }] of segments.entries()) {
      assert.ok(begin <= end && end <= seconds);
      assert.ok(i === 0 || segments[i - 1].end <= begin, "one after the other");
    }
    const { waiting, ...own } = row;
    assert.equal(waiting, undefined);
    assert.ok(own.ttft === null || own.ttft <= own.until - own.begin);
    const bar = barOf(log, tracks, own.begin, own.until, 400);
    assert.ok(bar.every(({ x, width }, i) => i === 0 || bar[i - 1].x + bar[i - 1].width <= x + 1e-6 || width > 0));
  }
  assert.deepEqual(
    sequenceRows(log, log.length - 1)
      .map(({ seq }) => seq)
      .sort(),
    rows.map(({ seq }) => seq).sort(),
  );
});

test("a request's time on two instances, in round numbers: a pause between steps is no part of them", () => {
  const submit = (seq, id, kv_role) => ({
    ...{ type: "submit", seq_id: seq, request_id: id, kv_role, prompt_token_ids: [1, 2, 3] },
  });
  const entry = (seq, phase, start, count) => ({ seq_id: seq, phase, start, token_ids: Array(count).fill(1) });
  const { admit, sample, finish } = op;
  const record = (instance, at, forward, kind, ops, batch = []) => ({
    ...{ instance, kind, ops, batch, step: 1, timing: { at, forward } },
  });
  const hand = {
    header: { instances: [{ name: "prefill-0" }, { name: "decode-0" }] },
    records: [
      record(0, 1, 0, "submit", [submit(0, "X/prefill", "kv_producer")]),
      record(
        0,
        3,
        1.5,
        "step",
        [admit(0), sample(0), finish(0), { type: "hold", seq_id: 0, transfer: "X#1" }],
        [entry(0, "prefill", 0, 3)],
      ),
      record(1, 3.125, 0, "submit", [submit(1, "X", "kv_consumer")]),
      record(1, 3.5, 0.25, "step", [{ type: "await", seq_id: 1 }]),
      record(1, 4, 0, "transfer", [{ type: "arrive", seq_id: 1, num_bytes: 64, began: 3.5, ended: 4 }]),
      record(1, 4.5, 0.25, "step", [admit(1), sample(1)], [entry(1, "prefill", 2, 1)]),
      record(0, 6, 1, "step", []),
      record(1, 9, 0.5, "step", [sample(1), finish(1)], [entry(1, "decode", 3, 1)]),
    ].map((one, index) => ({ ...one, index })),
  };
  const { rows, seconds } = requestFigures(hand);
  assert.equal(seconds, 1.5 + 0.25 + 0.5 + 0.25 + 1 + 0.5); // steps and the transfer
  const [{ request, parts, output, moved, queue, ttft, tpot, prefill, moving, decode, begin, until }, ...others] = rows;
  assert.deepEqual([others, request, parts, output, moved], [[], "X", [0, 1], 2, 64]);
  assert.deepEqual([queue, ttft, tpot], [0, 1.5 + 0.25 + 0.5 + 0.25, 1 + 0.5]);
  assert.deepEqual([prefill, moving, decode], [1.5 + 0.25, 0.25 + 0.5, 0.5]);
  assert.deepEqual([begin, until], [0, seconds]);
});

test("a part lost before its first token is continued, a later loss ends the request", () => {
  const submit = (seq, role = null, id = role === "kv_producer" ? "X/prefill" : "X") => ({
    ...{ type: "submit", seq_id: seq, request_id: id, kv_role: role },
  });
  const parts = new RequestParts(log);
  assert.equal(parts.read(submit(0, "kv_producer"), 0).before, null);
  assert.deepEqual(parts.read({ type: "lost" }, 0), { before: null, lost: [0] });
  assert.equal(parts.read(submit(3, "kv_producer"), 0).before, 0, "again");
  parts.read({ type: "sample", seq_id: 3 }, 0);
  parts.read({ type: "finish", seq_id: 3, reason: "length" }, 0);
  assert.equal(parts.read(submit(1, "kv_consumer"), 1).before, 3);
  parts.read({ type: "sample", seq_id: 1 }, 1);
  assert.deepEqual(parts.read({ type: "lost" }, 1).lost, [1]);
  assert.equal(parts.read(submit(2), 2).before, null, "another request of the same name");
  const alone = new RequestParts({ header: { instances: [] } });
  alone.read(submit(0, "kv_producer"), 0);
  assert.deepEqual([alone.read(submit(1, "kv_consumer"), 0).before, alone.producers.size], [null, 0]);
});

test("a lost instance: its blocks say so, its sequences' stories end with it", () => {
  for (const [index, op] of opsOf("lost")) {
    const { instance } = records[index];
    const before = log.stateAt(index - 1);
    for (const block of before.blocks.filter(({ ref_count: count }) => count > 0)) {
      const isOwn = log.groups[groupOf(log.groups, block.block_id)].instance === instance;
      assert.equal(blockHistory(log, block.block_id, index).at(-1).op === op, isOwn, String(block.block_id));
    }
    for (const seq of [...before.running, ...before.waiting, ...before.receiving].filter(
      (id) => instanceOf(id) === instance,
    ))
      assert.equal(records[timelineOf(log, seq).events.at(-1).record].ops[0].type, "lost");
  }
});

test("figures of one instance's pool leave the others out", () => {
  for (const { index, batch } of records)
    for (const { seq_id: seq } of batch) {
      const { free } = flowOf(log, index, seq);
      const { blocks } = log.stateAt(index);
      const own = ownGroups(log.groups, instanceOf(seq)).map((group) => log.groups[group]);
      const held = own.flatMap((group) =>
        blocks.slice(group.first_block, group.first_block + group.num_blocks).filter(({ ref_count: n }) => n > 0),
      );
      assert.equal(free, own.reduce((sum, group) => sum + group.num_blocks, 0) - held.length);
    }
});

test("without windows each instance would keep its own layers' blocks", () => {
  for (const { index } of records) {
    const state = log.stateAt(index);
    const figures = figuresByGroup(state);
    const size = state.block_size * log.header.kv_bytes_per_token;
    const firsts = [0, 2, 4].reduce((sum, group) => sum + figures[group].blocks_held, 0);
    assert.equal(bytesIfAllKept(state, figures), firsts * size);
  }
});
