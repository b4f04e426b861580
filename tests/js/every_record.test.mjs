// Texts and drawings of the page exist for every record of every kind of log.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { parseTrace } from "../../static/js/core/file.js";
import { flowOf } from "../../static/js/core/flow.js";
import { TraceLog } from "../../static/js/core/log.js";
import { provenanceOf } from "../../static/js/core/provenance.js";
import { memoryFigures } from "../../static/js/core/state.js";
import { wordsOf } from "../../static/js/i18n/chain.js";
import { plainSentencesOf } from "../../static/js/i18n/plain_sentence.js";
import { sentencesOf } from "../../static/js/i18n/sentence.js";
import { motionsOf } from "../../static/js/panels/memory/pool_motion.js";
import { phaseSentencesOf } from "../../static/js/panels/transport/phase_sentence.js";
import { PHASES } from "../../static/js/state/playhead.js";
import "./words.mjs";

const FOLDER = new URL("../golden/", import.meta.url);
const LOGS = readdirSync(FOLDER).filter((name) => name.endsWith(".kvtrace"));
const MAX = 60; // records of a log
const FIGURES = { used: "bytes_used", held: "bytes_held", cached: "bytes_cached" };

/** Put links into words, in which every number is one. */
function said(links) {
  for (const link of links) {
    const { lines, value } = wordsOf(link);
    assert.doesNotMatch([value, ...lines].join(" "), /NaN|undefined|Infinity|\{\w+\}|layers :/, link.kind);
  }
}

for (const name of LOGS)
  test(`${name}: every record is told, drawn and its figures add up`, () => {
    const trace = parseTrace(readFileSync(new URL(name, FOLDER)));
    const log = new TraceLog(trace.header);
    for (const [index, bytes] of trace.records.entries()) log.append(bytes, trace.captures[index]);
    const pace = Math.ceil(log.length / MAX);
    for (let index = 0; index < log.length; index += pace) {
      const state = log.stateAt(index);
      if (index) motionsOf(log.stateAt(index - 1), log.records[index]);
      for (const { seq_id: id } of log.records[index].batch ?? []) {
        sentencesOf(log, index, id);
        plainSentencesOf(log, index, id);
        flowOf(log, index, id);
        for (const phase of PHASES) phaseSentencesOf(log, index, phase, id);
      }
      for (const block of [0, ...log.groups.map((group) => group.first_block + 1)])
        said(provenanceOf(log, index, { block }).links);
      for (const seq of state.sequences.keys()) {
        const { links } = provenanceOf(log, index, { seq }) ?? { links: [] };
        said(links);
        const held = links.filter(({ kind }) => kind === "bytes" || kind === "state");
        for (const { bytes } of held) assert.ok(bytes >= 0, `${name}: record ${index}, sequence ${seq}`);
      }
      const totals = memoryFigures(state);
      for (const [figure, field] of Object.entries(FIGURES)) {
        const { links } = provenanceOf(log, index, { figure });
        const [whole, ...parts] = links.filter(({ kind }) => kind === "figure" || kind === "part");
        assert.equal(whole.bytes, totals[field], `${name}: record ${index}, ${figure}`);
        if (parts.length)
          assert.equal(
            parts.reduce((sum, part) => sum + part.bytes, 0),
            whole.bytes,
            figure,
          );
        said(links);
      }
    }
  });
