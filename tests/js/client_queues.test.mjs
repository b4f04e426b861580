// Queues of clients: the waiting clients at a record, from the log afterwards or from the server now.

import assert from "node:assert/strict";
import { test } from "node:test";

import { clientsAt, hasClients } from "../../static/js/core/client_queues.js";
import { logOf, reused } from "./histories.mjs";
import { op } from "./log_builder.mjs";

const submit = (seq, tokens, client, waited, queue_position = 0) => ({
  kind: "submit",
  ops: [{ ...op.submit(seq, tokens), client, waited, queue_position }],
});

/** Records end at 0, 1, 2, 3 s. b's second request is submitted at 3 s after 2.5 s of waiting for its turn, a's at 2 s after none. */
const log = () =>
  logOf([
    submit(0, [1, 2, 3], "a", 0),
    {
      batch: [op.entry(0, "prefill", 0, [1, 2, 3])],
      ops: [op.admit(0), op.allocate(0, 0, 0), op.allocate(0, 1, 1), op.write(0, 0, 3), op.sample(0)],
    },
    submit(1, [4], "b", 0),
    submit(2, [5], "b", 2.5, 1),
  ]);

const brief = (rows) =>
  rows.map(({ client, ahead, queued, running, tokens, streamed }) => [
    client,
    ahead,
    queued,
    running,
    tokens,
    streamed.map(({ seq, end }) => [seq, end]),
  ]);

test("clients that waited at a past record are found from later submissions", () => {
  // since 0.5 s: not yet at 0 s, at 1 s and 2 s, and at 3 s it is submitted
  assert.deepEqual(brief(clientsAt(log(), 0)), [["a", 0, [0], [], 0, []]]);
  assert.deepEqual(brief(clientsAt(log(), 1)), [
    ["a", 0, [], [0], 3, [[0, null]]],
    ["b", 1, [], [], 0, []],
  ]);
  assert.deepEqual(brief(clientsAt(log(), 2)), [
    ["a", 0, [], [0], 0, []],
    ["b", 1, [1], [], 0, []],
  ]);
  assert.deepEqual(brief(clientsAt(log(), 3))[1], ["b", 0, [1, 2], [], 0, []]);
});

test("the current queues come from the server", () => {
  const rows = clientsAt(log(), 3, { b: 4, c: 1 });
  assert.deepEqual(
    rows.map(({ client, ahead }) => [client, ahead]),
    [
      ["a", 0],
      ["b", 4],
      ["c", 1],
    ],
  );
});

test("runs without clients have no queues", () => {
  assert.equal(hasClients(reused()), false);
  assert.deepEqual(clientsAt(reused(), 1), []);
  assert.equal(hasClients(log()), true);
});

test("a request that goes on at another instance waits for no turn again, and in a queue while its blocks come", () => {
  const ask = (seq, id, kv_role) => ({
    type: "submit",
    seq_id: seq,
    request_id: id,
    kv_role,
    client: "a",
    waited: 4.5,
  });
  const finish = { type: "finish", seq_id: 0, reason: "length" };
  const shared = {
    header: { instances: [{ name: "prefill-0" }, { name: "decode-0" }] },
    records: [
      { instance: 0, timing: { at: 1 }, ops: [ask(0, "X/prefill", "kv_producer")] },
      { instance: 0, timing: { at: 2 }, ops: [finish] },
      { instance: 1, timing: { at: 5 }, ops: [ask(1, "X", "kv_consumer")] },
    ],
    stateAt: (index) => ({ waiting: index ? [] : [0], receiving: index === 2 ? [1] : [], running: [] }),
  };
  assert.deepEqual(brief(clientsAt(shared, 0)), [["a", 0, [0], [], 0, []]]);
  assert.deepEqual(brief(clientsAt(shared, 2)), [["a", 0, [1], [], 0, []]]);
});
