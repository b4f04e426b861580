// A language that may lack texts takes English ones for them, also lazily loaded ones.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LANGUAGES, language } from "../../static/js/i18n/language.js";
import { t } from "../../static/js/i18n/words.js";
import { addLazyWords, loadLazyWords } from "../../static/js/state/lazy_words.js";

test("lazy words of a language that has no such file, or half of one, are English", async () => {
  LANGUAGES.push({ code: "eo", html: "eo", short: "EO", label: "EO", whole: false });
  const texts = { "lazy.en": { "a.one": "one", "a.two": ["t", "wo"] }, "telling/en": {}, "telling/eo": {} };
  const asked = [];
  globalThis.fetch = async (address) => {
    asked.push(address);
    const found = Object.entries(texts).find(([name]) => address.endsWith(`${name}.json`))?.[1];
    return { ok: Boolean(found), status: found ? 200 : 404, json: async () => found };
  };
  await addLazyWords("alpha");
  assert.ok(asked.every((address) => address.includes("en.json")));
  await loadLazyWords("eo");
  language.value = "eo";
  assert.equal(t("a.one"), "one");
  texts["lazy.eo"] = { "a.one": "unu" };
  await addLazyWords("beta");
  await loadLazyWords("eo");
  assert.deepEqual([t("a.one"), t("a.two")], ["unu", "two"]);
});
