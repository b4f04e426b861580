// A file that was chosen or dropped: what is said of one that is no recording, is damaged, or contradicts itself.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openFile } from "../../static/js/net/library.js";
import { file, following, store } from "./session_page.mjs";
import "./words.mjs";

/** Take a file while a run is followed; what is said, in the error tone. */
async function taken(content, name) {
  await following(2);
  await openFile(new File([content], name));
  return store.toasts.value.filter(({ tone }) => tone === "error").map(({ text }) => text);
}

test("a text file is told that it is no recording, and the run stays", async () => {
  const said = await taken("dear diary", "diary.txt");
  assert.deepEqual(said, ["“diary.txt” is not a recording of a run. A recording is a .kvtrace file."]);
  assert.deepEqual([store.connection.value, store.numRecords.value], ["live", 2]);
});

test("a trace without a sound beginning cannot be read, and says why", async () => {
  const said = await taken(file(3).subarray(0, 12), "cut.kvtrace");
  assert.deepEqual(said, ["“cut.kvtrace” cannot be read (the file ends inside a frame head at byte 8)."]);
  assert.equal(store.connection.value, "live");
});

test("a damaged file is shown as far as it goes, and says how far", async () => {
  const whole = file(3);
  const [said] = await taken(whole.subarray(0, whole.length - 1), "cut.kvtrace");
  assert.match(
    said,
    /^The file is damaged \(the file ends inside the record at byte \d+\)\. Its first 2 records are shown\.$/,
  );
  assert.deepEqual([store.connection.value, store.numRecords.value], ["replay", 2]);
});

test("a file whose records contradict each other is shown as far as they do not", async () => {
  const two = file(2);
  const last = file(3).subarray(two.length); // the third record, twice
  const [said] = await taken(Buffer.concat([file(3), last]), "twice.kvtrace");
  assert.match(said, /^The file is damaged \(record 2.*\)\. Its first 3 records are shown\.$/);
  assert.deepEqual([store.connection.value, store.numRecords.value], ["replay", 3]);
});
