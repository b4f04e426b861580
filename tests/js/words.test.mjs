import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { LANGUAGES, onGpu } from "../../static/js/i18n/language.js";
import { bytesText, fill, grouped, probabilityText, secondsText, t } from "../../static/js/i18n/words.js";
import { en, glossary, JS, speak, zh } from "./words.mjs";

test("probabilities of a table are decimals, however small", () => {
  assert.deepEqual(
    [1, 0.416, 0.042, 0.0049, 0.0008, 3e-7, 0].map((p) => probabilityText(p)),
    ["1.00", "0.42", "0.04", "0.0049", "0.0008", "<0.0001", "0"],
  );
  assert.deepEqual(
    [0.416, 0.0008, 3e-7].map((p) => probabilityText(p, 4)),
    ["0.4160", "0.0008", "<0.0001"],
  );
});

test("both languages have the same keys", () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
});

test("both languages use the same placeholders", () => {
  const values = (text, end) => [...text.matchAll(new RegExp(`\\{(\\w+)${end}`, "g"))].map((m) => m[1]);
  for (const [one, other] of [
    [en, zh],
    [zh, en],
  ])
    for (const key of Object.keys(en)) {
      const there = new Set(values(other[key], "[|}]")); // a number may only choose a form in one of them
      assert.deepEqual(
        values(one[key], "\\}").filter((name) => !there.has(name)),
        [],
        key,
      );
    }
});

test("every key that the page asks for exists", () => {
  const missing = [];
  const lessons = JSON.parse(readFileSync(new URL("../../app/lessons/words.en.json", import.meta.url), "utf8"));
  const exists = (key) => key in en || key.slice("question.".length) in lessons.question; // these come with a lesson
  const terms = new Set(Object.values(glossary.en).flatMap((entries) => Object.keys(entries)));
  for (const name of readdirSync(JS, { recursive: true })) {
    if (!String(name).endsWith(".js")) continue;
    const source = readFileSync(new URL(String(name), JS), "utf8");
    for (const [, key] of source.matchAll(/\bt\(\s*"([\w.]+)"/g)) if (!exists(key)) missing.push(key);
    for (const [, key] of source.matchAll(/"(sentence\.[\w.]+)"/g)) if (!(key in en)) missing.push(key);
    for (const [, id] of source.matchAll(/<\$\{Term\} id="(\w+)"/g)) if (!terms.has(id)) missing.push(id);
  }
  assert.deepEqual(missing, []);
});

test("every language of the list has words in every room that has any", () => {
  const files = readdirSync(JS, { recursive: true }).map(String);
  const roomsOf = (code) =>
    files
      .filter((one) => new RegExp(`(words|lazy)\\.${code}\\.json$`).test(one))
      .map((one) => one.slice(0, -`${code}.json`.length));
  for (const { code, isComplete } of LANGUAGES)
    if (isComplete) assert.deepEqual(roomsOf(code).sort(), roomsOf("en").sort(), code);
});

test("lazy words are said by their own panel alone", () => {
  const files = readdirSync(JS, { recursive: true }).map(String);
  const early = [];
  for (const lazy of files.filter((one) => one.endsWith("lazy.en.json"))) {
    const folder = lazy.slice(0, -"lazy.en.json".length);
    const keys = Object.keys(JSON.parse(readFileSync(new URL(lazy, JS), "utf8")));
    for (const name of files.filter((one) => one.endsWith(".js") && !one.startsWith(folder))) {
      const source = readFileSync(new URL(name, JS), "utf8");
      const begun = [...source.matchAll(/`(\w[\w.]*\.)\$\{/g)].map(([, start]) => start);
      for (const key of keys)
        if (source.includes(`"${key}"`) || begun.some((start) => key.startsWith(start))) early.push([name, key]);
    }
  }
  assert.deepEqual(early, []);
});

test("a plural takes the form that the language's rules name", () => {
  assert.equal(fill("{n|key|keys}", { n: 0 }, "en"), "keys");
  assert.equal(fill("{n|блок|блока|блоков}", { n: 1 }, "ru"), "блок");
  assert.equal(fill("{n|блок|блока|блоков}", { n: 2 }, "ru"), "блока");
  assert.equal(fill("{n|блок|блока|блоков}", { n: 11 }, "ru"), "блоков");
});

test("every term is defined in both languages", () => {
  const ids = (code) => Object.entries(glossary[code]).map(([group, entries]) => [group, Object.keys(entries)]);
  assert.deepEqual(ids("zh"), ids("en"));
});

test("numbers are written with units and groups", () => {
  assert.equal(fill("{n} {n|key|keys}", { n: 1 }), "1 key");
  assert.equal(fill("{n} {n|key|keys}", { n: 2 }), "2 keys");
  assert.equal(grouped(36864), "36\u2009864");
  assert.equal(bytesText(36864), "36\u2009KiB");
  assert.equal(bytesText(72 * 2 ** 30), "72\u2009GiB");
  assert.equal(secondsText(0.0123), "12.3\u2009ms");
  assert.equal(secondsText(null), "–");
});

test("the cache's memory is called what it is on the device of the run", () => {
  speak("zh");
  assert.equal(t("region.memory"), "内存");
  onGpu.value = true;
  assert.equal(t("region.memory"), "显存");
  assert.equal(t("memory.title"), "KV 显存");
  assert.equal(t("memory.used"), "已用", "what has no word of its own there keeps its usual one");
  onGpu.value = false;
  speak("en");
});
