// A scene on the page: its settings, a new log, its prompts in the reader's language when they are due, and again.

import assert from "node:assert/strict";
import { test } from "node:test";

import { header } from "./log_builder.mjs";
import { coming, joined, settings, socket, soon, store } from "./session_page.mjs";
import { speak } from "./words.mjs";

const { playScene, reset, scene, sceneEnd } = await import("../../static/js/control/restart.js");
const { writeDraft, draft } = await import("../../static/js/state/prompts.js");
const { addPrompt } = await import("../../static/js/control/actions.js");

const SCENE = {
  id: "twice",
  title: { en: "Twice", zh: "两次" },
  watch: { en: "", zh: "" },
  end: { en: "{prompt} tokens, {sequences} in all", zh: "" },
  prompts: { en: ["moon", "moons"], zh: ["月", "月月"] },
  after_steps: [0, 2],
  sampling: { max_tokens: 7 },
  config: { num_blocks: 9 },
  seq: 1,
  pattern: null,
  detail: "scheduler",
  speed: 1,
};

/** The page follows theater `name`, whose server has the scene. */
async function live(name) {
  store.modelFacts.value = { presets: [SCENE], config: { num_blocks: 256 }, museum: [] };
  await coming(name);
  socket.question("join", name).answer(joined(name, { num_records: 0 }));
  await soon();
}

/** The server answers what begins a new log, and tells so to every viewer. */
async function begun(event, theater, epoch) {
  const question = socket.question(event);
  question.answer({ epoch, header: header() });
  await soon();
  socket.handlers.reset({ theater, epoch, header: header(), num_records: 0 });
  await soon();
  return question.body;
}

test("a scene is set in the reader's language, each prompt for its step, and the page looks where it happens", async () => {
  speak("zh");
  await live("A");
  const played = playScene(SCENE);
  await soon();
  const { config } = await begun("configure", "A", 1);
  assert.equal(config.num_blocks, 9);
  const asked = socket.question("submit");
  assert.deepEqual(asked.body.prompts, [
    { text: "月", after_steps: 0 },
    { text: "月月", after_steps: 2 },
  ]);
  assert.equal(asked.body.sampling.max_tokens, 7);
  asked.answer({ requests: [], num_records: 1 });
  await played;
  assert.deepEqual([settings.scene.value, settings.seq.value], ["twice", 1]);
  assert.deepEqual([settings.detail.value, settings.speed.value], ["scheduler", 1]);
  assert.equal(scene.value, SCENE);
  assert.equal(sceneEnd.value, null, "nothing is proved before its end");
});

test("after a reset the scene's prompts wait again", async () => {
  speak("en");
  await live("B");
  settings.scene.value = "twice";
  const done = reset();
  await soon();
  await begun("reset", "B", 1);
  const asked = socket.question("submit");
  assert.deepEqual(
    asked.body.prompts.map(({ text }) => text),
    ["moon", "moons"],
  );
  asked.answer({ requests: [], num_records: 1 });
  await done;
  assert.equal(settings.scene.value, "twice");
});

test("a prompt of one's own makes it one's own run, which a reset does not make a scene again", async () => {
  await live("C");
  settings.scene.value = "twice";
  writeDraft("sea");
  const added = addPrompt();
  await soon();
  socket.question("submit").answer({ requests: [], num_records: 1 });
  await added;
  assert.equal(settings.scene.value, null);
  const done = reset();
  await soon();
  await begun("reset", "C", 1);
  await done;
  assert.equal(socket.asked.filter(({ event }) => event === "submit").length, 0);
  assert.equal(draft.value, "sea");
});

test("a reset by another page ends the scene", async () => {
  await live("D");
  settings.scene.value = "twice";
  socket.handlers.reset({ theater: "D", epoch: 1, header: header(), num_records: 0 });
  await soon();
  assert.equal(settings.scene.value, null);
});
