// The glossary: both languages, short, grouped, and found by a search.

import assert from "node:assert/strict";
import test from "node:test";
import { findTerms, groupsOfTerms, termOf } from "../../static/js/i18n/words.js";
import { en, glossary, speak } from "./words.mjs";

test("every entry has a term and a short definition in both languages", () => {
  for (const lang of ["en", "zh"])
    for (const entries of Object.values(glossary[lang]))
      for (const [id, [term, definition]] of Object.entries(entries)) {
        assert.ok(term && definition, `${id} ${lang}`);
        assert.ok(definition.length <= (lang === "en" ? 140 : 80), `${id} ${lang}: ${definition.length}`);
        assert.match(definition, lang === "en" ? /[.…]$/ : /[。……]$/, `${id} ${lang} is a sentence`);
        if (lang === "zh") assert.match(definition, /[\u4e00-\u9fff]/, id);
        else assert.doesNotMatch(definition, /[\u4e00-\u9fff]/, id);
      }
});

test("no term is defined twice", () => {
  for (const lang of ["en", "zh"]) {
    const terms = Object.values(glossary[lang]).flatMap((entries) => Object.values(entries).map(([term]) => term));
    assert.equal(new Set(terms).size, terms.length);
  }
});

test("every group has a name and an entry", () => {
  for (const group of groupsOfTerms()) {
    assert.ok(en[`glossary.${group}`], group);
    assert.ok(Object.keys(glossary.en[group]).length > 0, group);
  }
});

test("a term is shown in both languages, the page's first", () => {
  speak("zh");
  assert.deepEqual(
    [termOf("block").own[0], termOf("block").other[0]],
    [glossary.zh.cache.block[0], glossary.en.cache.block[0]],
  );
  speak("en");
  assert.equal(termOf("block").otherLanguage.code, "zh");
});

test("a search finds a term in either language and by its definition", () => {
  const ids = (query) => findTerms(query).map(({ id }) => id);
  assert.ok(ids("写时").includes("copy_on_write"));
  assert.ok(ids("Copy WRITE").includes("copy_on_write"));
  assert.ok(ids("ref_count").includes("ref_count"));
  assert.deepEqual(ids("no such term"), []);
  assert.equal(ids("").length, Object.values(glossary.en).flatMap((entries) => Object.keys(entries)).length);
});
