// The opening's film: every number of it is one of its recordings'.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { parseTrace } from "../../static/js/core/file.js";
import { attentionOf, filmOf, vectorIn } from "../../static/js/core/film.js";
import { TraceLog } from "../../static/js/core/log.js";
import { widestHead } from "../../static/js/core/wide_rows.js";
import { BEATS, beatAt, END, endOf } from "../../static/js/panels/intro/time.js";

const RECORDINGS = "static/recordings";
const LANGUAGES = readdirSync(RECORDINGS)
  .map((name) => /^opening-(\w+)\.kvtrace$/.exec(name)?.[1])
  .filter(Boolean);

function logAt(path) {
  const trace = parseTrace(readFileSync(path));
  const log = new TraceLog(trace.header);
  trace.records.forEach((bytes, i) => log.append(bytes, trace.captures[i]));
  return log;
}

const films = new Map();
function film(language) {
  if (!films.has(language)) {
    const [log, plain] = [`${RECORDINGS}/opening-${language}.kvtrace`, `static/opening/${language}-plain.kvtrace`].map(
      logAt,
    );
    films.set(language, { log, plain, film: filmOf(log, plain) });
  }
  return films.get(language);
}

test("there is a film in Chinese and in English", () => assert.deepEqual(LANGUAGES.sort(), ["en", "zh"]));

for (const language of LANGUAGES) {
  test(`${language}: the counters are the tokens of the records' batches`, () => {
    const { log, plain, film: found } = film(language);
    const n = found.steps.length;
    const p = found.numPrompt;
    // step i computes p + i tokens again without a cache, and one with it (the first p)
    assert.equal(found.withoutCache.length, n);
    assert.equal(found.withoutCache.at(-1), n * p + (n * (n - 1)) / 2);
    assert.equal(found.withCache.at(-1), p + n - 1);
    const words = (of) => [...of.tail.sequences.values()].find((seq) => seq.request_id === "A").token_ids;
    assert.deepEqual(words(plain), words(log).slice(0, p + n));
    assert.ok(found.withoutCache.at(-1) / found.withCache.at(-1) > 10);
  });

  test(`${language}: the query that is shown asks several words, and its weights sum to one`, () => {
    const { film: found } = film(language);
    for (const most of [9, 14]) {
      const attention = attentionOf(found, most);
      assert.ok(attention && attention.weights.length <= most && attention.weights.length === attention.query + 1);
      const loud = attention.weights.filter((w) => w >= 0.04);
      assert.ok(loud.length >= 3, `${loud.length} keys are heard`);
      assert.ok(Math.abs(attention.weights.reduce((a, b) => a + b) - 1) < 5e-3); // kept in 16 bits
    }
  });

  test(`${language}: K and V of every kept position and the attending query are recorded`, () => {
    const { film: found } = film(language);
    const { head, query } = attentionOf(found, 12);
    for (let position = 0; position < found.withCache.at(-1); position++)
      for (const kind of ["k", "v"]) assert.ok(vectorIn(found, kind, position, head), `${kind} of ${position}`);
    assert.equal(vectorIn(found, "q", query, head).length, found.log.header.model.head_dim);
  });

  test(`${language}: A's blocks lie where they were free, B shares its first ones, C waits for more than there are`, () => {
    const { serving, table, log } = film(language).film;
    assert.ok(table.some((id, logical) => id !== logical));
    assert.ok(serving.shared.length >= 2);
    assert.deepEqual(serving.b.table.slice(0, serving.shared.length), serving.a.table.slice(0, serving.shared.length));
    assert.ok(serving.needed > serving.available);
    assert.equal(log.stateAt(serving.index).free_queues[0].length, serving.available);
    assert.ok(log.stateAt(log.length - 1).waiting.length === 0, "C got its turn in the end");
  });

  test(`${language}: the fan opens where the model was least sure, and each of its words has a recorded future`, () => {
    const { log, film: found } = film(language);
    assert.ok(found.fan.length >= 3 && found.fan[0].p < 0.6);
    const futures = JSON.parse(readFileSync(`static/opening/${language}-futures.json`, "utf8"));
    assert.equal(futures.length, found.fan.length);
    const position = found.numPrompt + found.steps.indexOf(found.fanAt);
    found.fan.forEach((word, k) => {
      const fork = logAt(`static/opening/${language}-fork-${k}.kvtrace`);
      const a = [...fork.tail.sequences.values()].find((seq) => seq.request_id === "A");
      assert.equal(a.seq_id, found.seq);
      assert.equal(a.token_ids[position], word.token_id);
      assert.deepEqual(a.token_ids.slice(0, position), log.tail.sequences.get(found.seq).token_ids.slice(0, position));
    });
    assert.equal(existsSync(`static/opening/${language}-fork-${found.fan.length}.kvtrace`), false);
  });

  test(`${language}: the first look finds a head whose row is wide`, () => {
    const { log } = film(language);
    const { layer, head } = widestHead(log);
    assert.equal(layer, film(language).film.layer);
    assert.ok(head >= 0 && head < log.header.model.num_heads);
  });
}

test("the beats follow each other; the end of each is in it", () => {
  BEATS.forEach(({ id, from }, index) => {
    assert.equal(beatAt(from).id, id);
    assert.equal(beatAt(endOf(index)).index, index);
  });
  assert.ok(END > BEATS.at(-1).from && END <= 45);
});
