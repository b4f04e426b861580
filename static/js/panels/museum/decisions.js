// What the two runs of an exhibit decided in the same step, held against each other. Pure.

import { kindOf } from "../../core/operation_kinds.js";
import { operationsOf } from "../../core/operations.js";
import { firstOf, recordAt, tookStep } from "../../runs/steps.js";

/**
 * @typedef {import("../../core/log.js").TraceLog} TraceLog
 * @typedef {import("../../core/operations.js").Entry} Entry
 */

/**
 * What each log decided in its `step`-th step that the other did not: [of the first, of the second]. Both empty when
 * they agree.
 * @param {TraceLog[]} logs
 * @param {number} step
 * @returns {Entry[][]}
 */
export function differingDecisions(logs, step) {
  const told = logs.map((log) => decisionsOf(log, step));
  return told.map((mine, i) => [...mine].filter(([key]) => !told[1 - i].has(key)).map(([, entry]) => entry));
}

/**
 * What both decided in their `step`-th step: [[entry of the first, entry of the second], …].
 * @param {TraceLog[]} logs
 * @param {number} step
 * @returns {Entry[][]}
 */
export function sharedDecisions(logs, step) {
  const [first, second] = logs.map((log) => decisionsOf(log, step));
  return [...first].flatMap(([key, entry]) => {
    const other = second.get(key);
    return other ? [[entry, other]] : [];
  });
}

/**
 * @param {TraceLog} log
 * @param {number} step
 * @returns {Map<string, Entry>} by what is said of them
 */
function decisionsOf(log, step) {
  if (!tookStep(log, step)) return new Map();
  const entries = operationsOf(log, recordAt(log, step)).filter((entry) => !kindOf(entry.type).routine);
  return new Map(entries.map((entry) => [JSON.stringify([entry.layers, entry.parts]), entry]));
}

/** The first step up to `step` in which the logs decided differently: {step}, or null. */
export const firstDecisionDifference = firstOf((logs, at) =>
  differingDecisions(logs, at).some((entries) => entries.length) ? { step: at } : null,
);
