import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { GLOSSARY } from "../../static/js/i18n/glossary.js";
import { bytesText, fill, grouped, secondsText } from "../../static/js/i18n/index.js";
import { en as pageEn, zh as pageZh } from "../../static/js/i18n/texts.js";
import { en as benchEn, zh as benchZh } from "../../static/js/i18n/topics/bench.js"; // of a page of its own
import { en as compareEn, zh as compareZh } from "../../static/js/i18n/topics/compare.js"; // fetched with their panels
import { en as objectionsEn, zh as objectionsZh } from "../../static/js/i18n/topics/objections.js"; // fetched when one is said
import { en as raceEn, zh as raceZh } from "../../static/js/i18n/topics/race.js";
import { en as tourEn, zh as tourZh } from "../../static/js/i18n/topics/tour.js";

const [en, zh] = [
  { ...pageEn, ...benchEn, ...compareEn, ...objectionsEn, ...raceEn, ...tourEn },
  { ...pageZh, ...benchZh, ...compareZh, ...objectionsZh, ...raceZh, ...tourZh },
];
const JS = new URL("../../static/js/", import.meta.url);

test("both languages have the same keys", () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
});

test("both languages put in the same values", () => {
  const values = (text) => [...new Set([...text.matchAll(/\{(\w+)[|}]/g)].map((m) => m[1]))].sort();
  for (const key of Object.keys(en)) assert.deepEqual(values(zh[key]), values(en[key]), key);
});

test("every key that the page asks for exists", () => {
  const missing = [];
  for (const name of readdirSync(JS, { recursive: true })) {
    if (!String(name).endsWith(".js")) continue;
    const source = readFileSync(new URL(String(name), JS), "utf8");
    for (const [, key] of source.matchAll(/\bt\(\s*"([\w.]+)"/g)) if (!(key in en)) missing.push(key);
    for (const [, key] of source.matchAll(/"(sentence\.[\w.]+)"/g)) if (!(key in en)) missing.push(key);
    for (const [, id] of source.matchAll(/<\$\{Term\} id="(\w+)"/g)) if (!(id in GLOSSARY)) missing.push(id);
  }
  assert.deepEqual(missing, []);
});

test("every term is defined in both languages", () => {
  for (const entry of Object.values(GLOSSARY)) for (const lang of ["en", "zh"]) assert.equal(entry[lang].length, 2);
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
