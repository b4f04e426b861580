import assert from "node:assert/strict";
import { test } from "node:test";
import { rowSources } from "../../static/js/core/attention.js";
import { counterfactual } from "../../static/js/core/counterfactual.js";
import { blockHistory } from "../../static/js/core/history.js";
import { TraceLog } from "../../static/js/core/log.js";
import { connectedTo, provenanceOf } from "../../static/js/core/provenance.js";
import { sequenceViewAt, vectorOf } from "../../static/js/core/sequence_view.js";
import { wordsOf } from "../../static/js/i18n/chain.js";
import { readSelection, writeSelection } from "../../static/js/state/selection.js";
import { evicted, forked, loaded, logOf, preempted, reused, shared } from "./histories.mjs";
import { header, op, records, recordsOf } from "./log_builder.mjs";
import { speak } from "./words.mjs";

const of = (chain, kind) => chain.links.find((link) => link.kind === kind);
const kinds = (chain) => chain.links.map((link) => link.kind);

function captured() {
  const log = new TraceLog(header());
  for (const [record, capture] of records()) log.append(record, capture);
  return log;
}

test("a weight leads from its query to the key, slot, block, table, owners, decision and bytes", () => {
  const chain = provenanceOf(captured(), 1, { query: 4, position: 3 }, { seq: 0, layer: 0, head: 1 });
  assert.equal(chain.kind, "weight");
  assert.deepEqual(kinds(chain), [
    "query",
    "weight",
    "key",
    "slot",
    "block",
    "table",
    "owners",
    "written",
    "decision",
    "life",
    "bytes",
  ]);
  assert.ok(Math.abs(of(chain, "weight").value - 1 / 5) < 1e-7); // every key gets the same of query 4's weight
  assert.deepEqual([of(chain, "weight").rank, of(chain, "weight").of], [1, 5]);
  assert.deepEqual([of(chain, "query").position, of(chain, "query").go], [4, 1]);
  const { slot, block, size, offset } = of(chain, "slot");
  assert.deepEqual({ slot, block, size, offset }, { slot: 3, block: 1, size: 2, offset: 1 }); // 1 · 2 + 3 mod 2
  assert.deepEqual([of(chain, "table").logical, of(chain, "table").from, of(chain, "table").to], [1, 2, 3]);
  assert.equal(of(chain, "written").go, 1);
});

test("one token is layers · KV heads · (D + Dv) · bytes = 1 · 1 · 4 · 4 = 16 bytes; a block of two slots 32", () => {
  const log = captured();
  assert.equal(of(provenanceOf(log, 1, { block: 0, offset: 1 }), "bytes").bytes, 16);
  assert.deepEqual(
    [of(provenanceOf(log, 1, { block: 0 }), "bytes").bytes, of(provenanceOf(log, 1, { block: 0 }), "bytes").per_layer],
    [32, 32],
  );
});

test("a weight without a captured query is missing, not zero", () => {
  const chain = provenanceOf(shared(), 3, { query: 3, position: 0 }, { seq: 0 });
  assert.equal(of(chain, "weight").value, null);
});

test("a sampled token has a key in no slot yet", () => {
  const chain = provenanceOf(captured(), 1, { position: 5 }, { seq: 0 });
  assert.equal(of(chain, "slot"), undefined);
  assert.equal(of(chain, "nowhere").waits, true);
  assert.equal(of(chain, "nowhere").sampled, true);
  assert.equal(provenanceOf(captured(), 1, { position: 6 }, { seq: 0 }), null);
});

test("a prompt token of a sequence that only arrived was not sampled", () => {
  const { waits, sampled } = of(provenanceOf(captured(), 0, { position: 3 }, { seq: 0 }), "nowhere");
  assert.deepEqual([waits, sampled], [true, false]);
});

test("blocks of a finished sequence are described as past", () => {
  const chain = provenanceOf(captured(), 2, { position: 0 }, { seq: 0 });
  assert.equal(of(chain, "table").held, false);
  assert.deepEqual([of(chain, "freed").seq, of(chain, "freed").why, of(chain, "freed").to], [0, "finish", "back"]);
});

test("a shared block names both owners and how each came to it", () => {
  const chain = provenanceOf(shared(), 3, { position: 0 }, { seq: 1 });
  assert.deepEqual(
    of(chain, "owners").owners.map(({ seq, how, go }) => [seq, how, go]),
    [
      [0, "allocate", 1],
      [1, "share", 3],
    ],
  );
  assert.equal(of(chain, "block").ref_count, 2);
  assert.deepEqual([of(chain, "written").seq, of(chain, "written").holds], [0, true]);
  const lit = connectedTo(shared(), 3, { position: 0 }, { seq: 1 });
  assert.deepEqual([[...lit.blocks], [...lit.slots], [...lit.seqs].sort()], [[0], [0], [0, 1]]);
});

test("content that outlived its writer: the key of seq 1 was written by seq 0, which no longer holds the block", () => {
  const chain = provenanceOf(reused(), 3, { position: 1 }, { seq: 1 });
  const { seq, position, holds, copied, go } = of(chain, "written");
  assert.deepEqual({ seq, position, holds, copied, go }, { seq: 0, position: 1, holds: false, copied: false, go: 1 });
  assert.deepEqual(
    of(chain, "owners").owners.map(({ seq: id, how }) => [id, how]),
    [[1, "share"]],
  );
  assert.equal(of(chain, "decision").seq, 0); // the allocation that the content dates from
});

test("an evicted block: whose allocation took it, which hash went, whose it was before", () => {
  const log = evicted();
  const chain = provenanceOf(log, 3, { block: 0 });
  const decision = of(chain, "decision");
  const [, [key, { first, last }]] = decision.parts;
  assert.deepEqual([decision.seq, key, first, last], [1, "op.allocate.reason.admission", 0, 2]);
  assert.deepEqual([decision.why, decision.go], ["admission", 3]);
  assert.deepEqual(decision.evicted, new TextEncoder().encode("h0"));
  assert.deepEqual([of(chain, "earlier").seq, of(chain, "earlier").go], [0, 1]);
  assert.deepEqual([of(chain, "evicted").go, of(chain, "evicted").select.op], [3, 2]);
  const decided = provenanceOf(log, 3, { record: 3, op: 2 });
  assert.equal(of(decided, "operation").op.type, "evict");
  assert.equal(of(decided, "decision").block, 0);
});

test("a freed block shows its last owner, the end of the queue, and the reason", () => {
  const chain = provenanceOf(reused(), 1, { block: 1 });
  assert.deepEqual(kinds(chain), ["block", "decision", "freed", "life", "bytes"]);
  assert.deepEqual([of(chain, "freed").to, of(chain, "freed").why, of(chain, "block").place], ["front", "finish", 1]);
  assert.equal(of(provenanceOf(preempted(), 2, { record: 2, op: 0 }), "given").why, "preempt");
});

test("a copied block: the content came by copy-on-write, the decision says from where", () => {
  const log = forked();
  const chain = provenanceOf(log, 2, { position: 2 }, { seq: 0 });
  assert.deepEqual([of(chain, "written").go, of(chain, "written").copied], [1, true]);
  const { why, parts } = of(chain, "decision");
  assert.deepEqual([why, parts[1][1].src], ["copy", [1]]);
  assert.deepEqual(
    of(provenanceOf(log, 1, { block: 1 }), "owners").owners.map(({ seq, how }) => [seq, how]),
    [
      [0, "allocate"],
      [1, "fork"],
    ],
  );
});

test("an appended block says which position needed it", () => {
  const chain = provenanceOf(preempted(), 2, { record: 2, op: 2 });
  const { why, parts } = of(chain, "decision");
  assert.deepEqual([why, parts[1][1].position], ["append", 2]);
  assert.equal(of(chain, "request").request_id, "r0");
});

test("a block's history is in order, with the slots that each write filled", () => {
  const events = blockHistory(shared(), 1, 3).map(({ record, op: { type }, from, to }) => [record, type, from, to]);
  assert.deepEqual(events, [
    [1, "allocate", undefined, undefined],
    [1, "write", 0, 1],
    [3, "write", 1, 2],
  ]);
  assert.equal(blockHistory(shared(), 1, 1).length, 2); // nothing from later records
});

test("a sequence tells its blocks, the shared ones, its lookup and its bytes", () => {
  const chain = provenanceOf(shared(), 3, { seq: 1 });
  assert.deepEqual(of(chain, "blocks").blocks, [0, 2]);
  assert.deepEqual(of(chain, "blocks").shared, [0]);
  assert.equal(of(chain, "lookup").verdict, "hit");
  assert.equal(of(chain, "bytes").bytes, 2 * 2 * 16);
});

test("used 5 slots, reserved 6, wasted 1: 80, 96 and 16 bytes, and the parts add up", () => {
  const log = shared();
  const figure = (name) => provenanceOf(log, 3, { figure: name });
  const bytes = ["used", "held", "waste", "cached", "free"].map((name) => of(figure(name), "figure").bytes);
  assert.deepEqual(bytes, [5 * 16, 6 * 16, 16, 0, 2 * 16]);
  for (const name of ["used", "held", "waste"]) {
    const parts = figure(name).links.filter((link) => link.kind === "part");
    assert.equal(
      parts.reduce((sum, part) => sum + part.bytes, 0),
      of(figure(name), "figure").bytes,
    );
  }
});

test("two running requests, 32 slots reserved for each: 64 slots, 6 paged; a pool of 8 slots would have room for none", () => {
  const log = shared();
  const other = counterfactual({ ...log.header, engine: { ...log.header.engine, max_model_len: 32 } }, log.stateAt(3));
  assert.deepEqual([other.contiguous_slots, other.paged_slots, other.computed_slots], [64, 6, 7]); // the shared block counts once
  assert.deepEqual([other.fit, other.unfit], [0, 2]); // ⌊8 / 32⌋
  assert.equal(other.limit_slots, 2 * (3 + 4)); // prompt + max_tokens
  assert.equal(counterfactual(log.header, log.stateAt(3)), null); // a header that does not say max_model_len
});

test("a run that reserves in one piece is compared with blocks of 16: 20 tokens take ⌈20 / 16⌉ · 16 = 32 slots of 64", () => {
  const tokens = Array.from({ length: 20 }, (_, i) => 1 + (i % 8));
  const log = logOf(
    [
      { kind: "submit", ops: [op.submit(0, tokens, 10)] },
      {
        batch: [op.entry(0, "prefill", 0, tokens)],
        ops: [op.admit(0), op.allocate(0, 0, 0), op.write(0, 0, 20), op.sample(0)],
      },
    ],
    { strategy: "contiguous", num_blocks: 2, block_size: 64, max_model_len: 64 },
  );
  const other = counterfactual(log.header, log.stateAt(1));
  assert.deepEqual([other.contiguous_slots, other.paged_slots, other.fit, other.unfit], [64, 32, 2, 0]);
});

test("an empty selection has no chain", () => {
  const log = shared();
  for (const selection of [
    null,
    { block: 99 },
    { seq: 9 },
    { record: 9, op: 0 },
    { record: 1, op: 99 },
    { figure: "other" },
    { position: 99 },
  ])
    assert.equal(provenanceOf(log, 3, selection, { seq: 0 }), null);
  assert.equal(provenanceOf(log, -1, { block: 0 }), null);
});

test("a selection travels in a link", () => {
  for (const target of [
    { query: 20, position: 9, seq: 0 },
    { block: 5, offset: 1 },
    { seq: 0 },
    { record: 12, op: 3 },
    { figure: "used" },
  ])
    assert.deepEqual(readSelection(writeSelection(target)), target);
  for (const text of ["", null, "x1", "p", "p-1", "f-", "p1<"]) assert.equal(readSelection(text), null);
});

/** The log of `loaded` for a run that has not stored what it loads: the operations of its first record are another's. */
function loadedElsewhere() {
  const log = new TraceLog(header({ num_blocks: 2 }));
  for (const bytes of recordsOf([
    { kind: "submit", ops: [op.submit(2, [1, 2, 4])] },
    {
      batch: [op.entry(2, "prefill", 2, [4])],
      ops: [
        op.lookupExternal(2, "load", 2, ["disk"], 0.0012, 0.009),
        { ...op.admit(2), num_external_tokens: 2 },
        { ...op.allocate(2, 0, 0), reason: "load" },
        op.load(2, 0, 0, "h0", "disk"),
        { ...op.allocate(2, 1, 1), reason: "admission" },
        op.write(2, 2, 1),
        op.sample(2),
      ],
    },
  ]))
    log.append(bytes);
  return log;
}

test("a key that was stored and came back leads to where it was loaded, and to where it was written", () => {
  speak("en");
  const chain = provenanceOf(loaded(), 5, { position: 1 }, { seq: 2 });
  const { go, medium, here, position } = of(chain, "loaded");
  assert.deepEqual({ go, medium, here, position }, { go: 5, medium: "cpu", here: true, position: 1 });
  assert.deepEqual([of(chain, "written").go, of(chain, "written").seq, of(chain, "written").copied], [1, 0, false]);
  assert.equal(of(chain, "decision").why, "load");
  assert.match(wordsOf(of(chain, "loaded")).lines[0], /stored outside the pool, it came back from CPU memory\.$/);
});

test("a key that another run computed says so, and has no writer, no vector and no row here", () => {
  speak("en");
  const log = loadedElsewhere();
  const chain = provenanceOf(log, 1, { position: 1 }, { seq: 2 });
  assert.deepEqual([of(chain, "loaded").go, of(chain, "loaded").here], [1, false]);
  assert.equal(of(chain, "written"), undefined);
  assert.match(
    wordsOf(of(chain, "loaded")).lines[0],
    /was loaded from disk\. Another run computed it, whose log is not/,
  );
  const view = sequenceViewAt(log, 1, 2, 0, 0);
  assert.deepEqual([vectorOf(view, "k", 1), vectorOf(view, "q", 1)], [undefined, null]);
  assert.deepEqual(
    rowSources(view).map((source) => source?.record ?? null),
    [null, null, 1],
  );
});

test("a sequence says what was found outside the pool, with both numbers of the decision", () => {
  speak("en");
  const chain = provenanceOf(loadedElsewhere(), 1, { seq: 2 });
  const words = wordsOf(of(chain, "outside"));
  assert.equal(words.second, "loaded");
  assert.match(words.lines[0], /loading 1\.2\u2009ms, computing again 9\u2009ms\.$/);
  assert.deepEqual(of(chain, "outside").select, { record: 1, op: 0 });
});
