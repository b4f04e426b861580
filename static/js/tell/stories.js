// What happened to a sequence in sentences: core/stories.js in words. The command line tells the same with the same
// texts (app/cli/trace_explain.py).

import { partsWhere } from "../core/operations.js";
import { tell } from "./operations.js";
import { sentences, t } from "./words.js";

/**
 * @typedef {import("../core/stories.js").Moment} Moment
 * @typedef {import("../core/stories.js").Wait} Wait
 * @typedef {Parameters<typeof partsWhere>[0]} Log
 */

/**
 * A moment: its operation, what its return costs, how long it had waited and for what.
 * @param {Log} log @param {Moment} moment
 */
export function tellMoment(log, { record, at, again, wait }) {
  const said = [tell(partsWhere(log, record, (_, place) => place === at))];
  if (again) said.push(t("story.again", { n: again }));
  if (wait?.steps) said.push(tellWait("story.waited", wait));
  return sentences(said);
}

/** A wait that lasts until the log ends. @param {Wait} wait */
export const tellWaiting = (wait) => tellWait("story.waits", wait);

/** @param {string} key @param {Wait} wait */
function tellWait(key, { steps, behind, deferred, last }) {
  const parts = behind ? [t("story.behind", { n: behind })] : [];
  for (const [reason, n] of deferred)
    parts.push(t("story.deferred", { n, reason: t(`op.defer.reason.${reason}.chain`) }));
  const at = last ? [t("story.needed", { needed: last.needed, available: last.available })] : [];
  return t(key, { n: steps, reasons: [parts.join(t("join.list")), ...at].join(t("join.clauses")) });
}
