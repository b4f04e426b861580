// A server that answers before its model is there: the page waits for it and goes on by itself.

import assert from "node:assert/strict";
import { test } from "node:test";

import { tables } from "./options.mjs"; // before what asks for the table
import { coming, errors, joined, session, settings, socket, soon, store } from "./session_page.mjs";
import { speak } from "./words.mjs";

const { loadingSentence } = await import("../../static/js/kit/model_loading.js");

const STAGES = ["torch", "vocabulary", "weights", "check"];
const model = (state, more = {}) => ({
  name: "bundled",
  state,
  stage: null,
  stages: STAGES,
  place: "first",
  seconds: 0,
  compiled: "off",
  error: "",
  ...more,
});
const LOADING = { ok: false, error: { code: "loading", message: "it is not there yet" } };
const creations = () => socket.asked.filter(({ event }) => event === "create").length;

/** Response of /api/model: nothing yet, or facts with another initial number of blocks. */
let facts = null;
globalThis.fetch = async () => (facts ? { ok: true, json: async () => facts } : { ok: false });
const factsWith = (numBlocks) => ({
  model: { name: "bundled" },
  config: {},
  options: {
    tables: {
      engine: tables.engine.map((row) =>
        row.name === "num_blocks" ? { ...row, control: { ...row.control, initial: numBlocks } } : row,
      ),
    },
  },
});

/** A page without a run whose server has no model yet. */
async function early() {
  facts = store.modelFacts.value = null;
  await coming(null);
  socket.handlers.model(model("loading"));
  socket.question("create").answer(LOADING);
  await soon();
}

async function told(state, more) {
  socket.handlers.model(model(state, more));
  await soon();
}

test("a new run waits for the model, and asks for what follows from it", async () => {
  await early();
  assert.deepEqual([store.connection.value, creations(), errors()], ["connecting", 0, []]);
  for (const stage of STAGES) await told("loading", { stage });
  assert.equal(creations(), 0);
  facts = factsWith(123);
  await told("ready");
  const asked = socket.question("create");
  assert.equal(asked.body.config.num_blocks, 123);
  asked.answer(joined("T"));
  await soon();
  assert.deepEqual([store.connection.value, settings.theater.value, errors()], ["live", "T", []]);
});

test("choices made before the model is loaded stay", async () => {
  await early();
  settings.num_blocks.value = 7;
  facts = factsWith(321);
  await told("ready");
  assert.equal(socket.question("create").body.config.num_blocks, 7);
  settings.num_blocks.value = 321;
});

test("loading stages are described in order", async () => {
  await early();
  speak("en");
  assert.equal(loadingSentence(), "bundled is getting ready (1 of 4: PyTorch).");
  await told("loading", { stage: "weights" });
  assert.equal(loadingSentence(), "bundled is getting ready (3 of 4: weights).");
  await told("ready");
  assert.equal(loadingSentence(), "");
});

test("facts arrive before the model counts as loaded", async () => {
  await early();
  let answer = null;
  globalThis.fetch = () => new Promise((done) => (answer = () => done({ ok: true, json: async () => factsWith(48) })));
  socket.handlers.model(model("ready"));
  socket.handlers.model(model("ready", { compiled: "under_way" }));
  await soon();
  assert.equal(store.serverModel.value.state, "loading");
  answer();
  await soon();
  assert.deepEqual([store.modelFacts.value.model.name, store.serverModel.value.compiled], ["bundled", "under_way"]);
  globalThis.fetch = async () => (facts ? { ok: true, json: async () => facts } : { ok: false });
});

test("a server that restarts while loading is asked once", async () => {
  await early();
  socket.handlers.disconnect("transport close");
  await soon();
  assert.deepEqual([store.connection.value, store.serverModel.value, creations()], ["lost", null, 0]);
  socket.handlers.connect();
  await told("ready");
  assert.equal(creations(), 1);
  socket.question("create").answer(joined("T"));
  await soon();
  assert.equal(store.connection.value, "live");
});

test("the reason of a failed load is kept", async () => {
  await early();
  await told("failed", { stage: "weights", error: "it has no safetensors" });
  socket.question("create").answer({ ok: false, error: { code: "refused", message: "it could not be opened" } });
  await soon();
  socket.handlers.disconnect("transport close");
  assert.equal(store.serverModel.value.error, "it has no safetensors");
  assert.deepEqual([store.connection.value, errors()], ["lost", []]);
  socket.handlers.connect(); // it was started again
  await told("ready");
  socket.question("create").answer(joined("T"));
  await soon();
  assert.equal(store.connection.value, "live");
});

test("a recording on view stays when the model is loaded", async () => {
  await early();
  const away = session.watch("rec-1");
  socket.question("join", "rec-1").answer(joined("rec-1"));
  await away;
  await told("ready");
  assert.deepEqual([store.connection.value, creations()], ["replay", 0]);
});
