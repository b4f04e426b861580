// Comparison of the decisions of an exhibit's two runs in the same step. Pure.

import { kindOf } from "../../core/operation_kinds.js";
import { operationsOf } from "../../core/operations.js";
import { firstOf, recordAt, tookStep } from "../../runs/steps.js";

/** @import {TraceLog} from "../../core/log.js" */
/** @import {Entry} from "../../core/operations.js" */

/**
 * Return the decisions of each log in its `step`-th step that the other did not make, as [first, second]. Both are
 * empty if the logs agree.
 * @param {TraceLog[]} logs
 * @param {number} step
 * @returns {Entry[][]}
 */
export function differingDecisions(logs, step) {
  const told = logs.map((log) => decisionsOf(log, step));
  return told.map((mine, i) => [...mine].filter(([key]) => !told[1 - i].has(key)).map(([, entry]) => entry));
}

/**
 * Return the decisions that both logs made in their `step`-th step: [[entry of the first, entry of the second], …].
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

/** @param {TraceLog} log @param {number} step @returns {Map<string, Entry>} entries by their content */
function decisionsOf(log, step) {
  if (!tookStep(log, step)) return new Map();
  const entries = operationsOf(log, recordAt(log, step)).filter((entry) => !kindOf(entry.type).routine);
  return new Map(entries.map((entry) => [JSON.stringify([entry.layers, entry.parts]), entry]));
}

/** First step up to `step` with different decisions as {step}, or null. */
export const firstDecisionDifference = firstOf((logs, at) =>
  differingDecisions(logs, at).some((entries) => entries.length) ? { step: at } : null,
);
