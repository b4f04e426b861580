import assert from "node:assert/strict";
import { test } from "node:test";

import { LayerFetcher } from "../../static/js/net/layers.js";
import { encode } from "../../static/vendor/msgpack/encode.mjs";

/** A log in which nothing is here yet, and a server that has the layers named in `has`. */
function world({ has = () => true, fail = () => false, most = Infinity } = {}) {
  const kept = new Set();
  const log = {
    header: { model: { num_layers: 3 } },
    captureGone: new Set(),
    captureMissing: (index, layer) => !kept.has(`${index}/${layer}`) && !log.captureGone.has(`${index}/${layer}`),
    addLayer: (index, layer) => kept.add(`${index}/${layer}`),
    addCapture: (index) => [0, 1, 2].forEach((layer) => kept.add(`${index}/${layer}`)),
  };
  const requests = [];
  const calls = { fetching: 0, arrived: 0 };
  const fetcher = new LayerFetcher(log, {
    address: (layer, records) => ({ layer, records }),
    onFetch: (by) => (calls.fetching += by),
    arrived: () => (calls.arrived += 1),
    fetch: async ({ layer, records }) => {
      requests.push([layer, ...records]);
      if (fail()) throw new Error("no network");
      if (layer === null && !has(records[0], null)) return { ok: false, status: 404 };
      const taken = records.slice(0, most);
      const body = encode({
        records: taken,
        arrays: taken.map((index) => (has(index, layer) ? new Uint8Array([1]) : null)),
      });
      return {
        ok: true,
        arrayBuffer: async () => body.buffer.slice(body.byteOffset, body.byteOffset + body.byteLength),
      };
    },
  });
  return { fetcher, log, kept, requests, calls };
}

test("simultaneous requests are merged per layer", async () => {
  const { fetcher, kept, requests, calls } = world();
  await Promise.all([fetcher.request(3, 0), fetcher.request(4, 0), fetcher.request(3, 0), fetcher.request(4, 2)]);
  assert.deepEqual(requests, [
    [0, 3, 4],
    [2, 4],
  ]);
  assert.deepEqual([...kept], ["3/0", "4/0", "4/2"]);
  await fetcher.request(3, 0); // it is here
  assert.equal(requests.length, 2);
  assert.deepEqual(calls, { fetching: 0, arrived: 2 });
});

test("all layers of a record are one request, and a record without arrays has none", async () => {
  const { fetcher, requests, kept, log } = world({ has: (index) => index !== 5 });
  await fetcher.request(3, 0);
  await Promise.all([
    fetcher.request(3, null),
    fetcher.request(4, null),
    fetcher.request(4, 1),
    fetcher.request(5, null),
  ]);
  assert.deepEqual(requests, [
    [0, 3],
    [null, 3],
    [null, 4],
    [null, 5],
  ]);
  assert.deepEqual([...kept].sort(), ["3/0", "3/1", "3/2", "4/0", "4/1", "4/2"]);
  assert.deepEqual([...log.captureGone], ["5/0", "5/1", "5/2"]);
  await fetcher.request(4, null);
  assert.equal(requests.length, 4);
});

test("130 records are three requests of 64, 64 and 2", async () => {
  const { fetcher, requests } = world();
  let round;
  for (let index = 0; index < 130; index++) round = fetcher.request(index, 1);
  await round;
  assert.deepEqual(
    requests.map((request) => request.length - 1),
    [64, 64, 2],
  );
});

test("missing arrays are not requested again, omitted ones are", async () => {
  const { fetcher, log, requests } = world({ has: (index) => index !== 5, most: 2 });
  await Promise.all([5, 6, 7].map((index) => fetcher.request(index, 0)));
  assert.deepEqual([...log.captureGone], ["5/0"]);
  await Promise.all([5, 6, 7].map((index) => fetcher.request(index, 0)));
  assert.deepEqual(requests, [
    [0, 5, 6, 7],
    [0, 7],
  ]);
});

test("after a failure there is a pause, and then the views that are still open request again", async () => {
  let down = true;
  const { fetcher, kept, requests, calls } = world({ fail: () => down });
  await fetcher.request(1, 0);
  await fetcher.request(1, 0);
  assert.deepEqual([requests.length, calls], [1, { fetching: 0, arrived: 0 }]);
  down = false;
  await new Promise((done) => setTimeout(done, 1050));
  assert.equal(calls.arrived, 1);
  await fetcher.request(1, 0);
  assert.deepEqual([requests.length, [...kept]], [2, ["1/0"]]);
});
