// node figures_dump.mjs FILE.kvtrace: what the page derives from a log, as JSON. Python has the same figures from the
// same log (test_figures_parity.py).

import { readFileSync } from "node:fs";

import { visibleKeys } from "../../static/js/core/attention.js";
import { counterfactual } from "../../static/js/core/counterfactual.js";
import { operationsWithReasons } from "../../static/js/core/decisions.js";
import { parseTrace } from "../../static/js/core/file.js";
import { goodput } from "../../static/js/core/goodput.js";
import { figuresByGroup } from "../../static/js/core/groups.js";
import { TraceLog } from "../../static/js/core/log.js";
import { kvTerms, latencies } from "../../static/js/core/metrics.js";
import { requestFigures } from "../../static/js/core/requests.js";
import { memoryRows, rooflineRows, sequenceRows, stepRows } from "../../static/js/core/series.js";
import { memoryFigures } from "../../static/js/core/state.js";
import { timelineOf } from "../../static/js/core/timeline.js";
import { keysRead } from "../../static/js/i18n/sentence.js";

const trace = parseTrace(readFileSync(process.argv[2]));
const log = new TraceLog(trace.header);
for (const bytes of trace.records) log.append(bytes);
const layers = [...log.header.model.sliding_windows.keys()];

/** The reasons of allocations and frees, guessed as in a log that does not say them. */
function guessed(record) {
  const ops = record.ops.map((op) => (op.type === "allocate" || op.type === "free" ? { ...op, reason: null } : op));
  return operationsWithReasons(log.header, { ...record, ops })
    .filter((op) => op.type === "allocate" || op.type === "free")
    .map((op) => op.reason);
}

function figuresAt(index) {
  const record = log.records[index];
  const state = log.stateAt(index);
  return {
    memory: memoryFigures(state),
    groups: figuresByGroup(state),
    reserved: counterfactual(log.header, state),
    reasons: guessed(record),
    batch: (record.batch ?? []).map(({ seq_id, context_len }) => ({
      visible: layers.map((layer) => visibleKeys(log.header, layer, context_len - 1)),
      keys_read: layers.map((layer) => keysRead(log, context_len, [layer])),
      latencies: latencies(log, seq_id, index),
    })),
  };
}

/** A story as JSON; its events with the types of their operations. */
function story(seq) {
  const said = (wait) => wait && { ...wait, deferred: Object.fromEntries(wait.deferred) };
  const { events, waiting, ...rest } = timelineOf(log, seq);
  const typed = ({ wait, ...moment }) => ({
    ...moment,
    type: log.records[moment.record].ops[moment.at].type,
    wait: said(wait),
  });
  return { ...rest, events: events.map(typed), waiting: said(waiting) };
}

const { rows, slowest, numSlow, median, seconds } = requestFigures(log);
/** A bar for the run itself: what its sequences took in the middle, so that some meet it and some do not. */
const middle = (name) => {
  const known = rows.map((row) => row[name]).filter((value) => value !== null);
  return known.sort((a, b) => a - b)[known.length >> 1] || 1;
};
const slo = { ttft: middle("ttft"), tpot: middle("tpot") };
const { met, ended, perSecond } = goodput(rows, seconds, slo);
const found = {
  requests: { rows, slowest, num_slow: numSlow, median },
  goodput: { slo, met, ended, per_second: perSecond },
  stories: [...log.tail.sequences.keys()].map(story),
  terms: kvTerms(log.header),
  group_terms: log.groups.map((group) => kvTerms(log.header, group)),
  records: log.records.map((_, index) => figuresAt(index)),
  sequences: sequenceRows(log, log.length - 1),
  steps: stepRows(log),
  memory: memoryRows(log),
  roofline: rooflineRows(log),
};
process.stdout.write(JSON.stringify(found));
