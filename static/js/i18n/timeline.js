// Timeline of a sequence in sentences, from core/timeline.js. The command line (app/cli/trace_explain.py) uses the same
// texts.

import { partsWhere } from "../core/operations.js";
import { messagesText } from "./operations.js";
import { sentences, t } from "./words.js";

/**
 * @typedef {import("../core/timeline.js").TimelineEvent} TimelineEvent
 * @typedef {import("../core/timeline.js").Wait} Wait
 * @typedef {Parameters<typeof partsWhere>[0]} Log
 */

/**
 * Return an event as a sentence: its operation, the cost of resuming, and the wait before it with its reason.
 * @param {Log} log
 * @param {TimelineEvent} moment
 */
export function eventText(log, { record, at, again, wait }) {
  const said = [messagesText(partsWhere(log, record, (_, place) => place === at))];
  if (again) said.push(t("story.again", { n: again }));
  if (wait?.steps) said.push(waitText("story.waited", wait));
  return sentences(said);
}

/** Return a wait that lasts until the end of the log. @param {Wait} wait */
export const waitingText = (wait) => waitText("story.waits", wait);

/** @param {string} key @param {Wait} wait */
function waitText(key, { steps, behind, deferred, last }) {
  const parts = behind ? [t("story.behind", { n: behind })] : [];
  for (const [reason, n] of deferred)
    parts.push(t("story.deferred", { n, reason: t(`op.defer.reason.${reason}.chain`) }));
  const at = last ? [t("story.needed", { needed: last.needed, available: last.available })] : [];
  return t(key, { n: steps, reasons: [parts.join(t("join.list")), ...at].join(t("join.clauses")) });
}
