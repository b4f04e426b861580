// The glossary: both languages, short, grouped, and found by a search.

import assert from "node:assert/strict";
import test from "node:test";
import { findTerms, GLOSSARY, GROUPS } from "../../static/js/i18n/glossary.js";
import { en } from "../../static/js/i18n/texts.js";

test("every entry has a term and a short definition in both languages", () => {
  for (const [id, entry] of Object.entries(GLOSSARY)) {
    assert.ok(GROUPS.includes(entry.group), id);
    for (const lang of ["en", "zh"]) {
      const [term, definition] = entry[lang];
      assert.ok(term && definition, `${id} ${lang}`);
      assert.ok(definition.length <= (lang === "en" ? 140 : 80), `${id} ${lang}: ${definition.length}`);
      assert.match(definition, lang === "en" ? /[.…]$/ : /[。……]$/, `${id} ${lang} is a sentence`);
    }
    assert.match(entry.zh[1], /[\u4e00-\u9fff]/, id);
    assert.doesNotMatch(entry.en[1], /[\u4e00-\u9fff]/, id);
  }
});

test("no term is defined twice", () => {
  for (const lang of ["en", "zh"]) {
    const terms = Object.values(GLOSSARY).map((entry) => entry[lang][0]);
    assert.equal(new Set(terms).size, terms.length);
  }
});

test("every group has a name and an entry", () => {
  for (const group of GROUPS) {
    assert.ok(en[`glossary.${group}`], group);
    assert.ok(Object.values(GLOSSARY).some((entry) => entry.group === group), group);
  }
});

test("a search finds a term in either language and by its definition", () => {
  const ids = (query) => findTerms(query).map(([id]) => id);
  assert.ok(ids("写时").includes("copy_on_write"));
  assert.ok(ids("Copy WRITE").includes("copy_on_write"));
  assert.ok(ids("ref_count").includes("ref_count"));
  assert.deepEqual(ids("no such term"), []);
  assert.equal(ids("").length, Object.keys(GLOSSARY).length);
});
