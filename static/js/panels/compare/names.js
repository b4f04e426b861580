// Distinct display names of runs: the given name or the beginning of the first prompt, the number of
// requests, the settings that differ, the start time. Pure.

import { grouped, inLanguage, t } from "../../i18n/words.js";
import { settingName, settingValue } from "./verdict.js";

/** @import {Run} from "./model.js" */

const PROMPT = 20; // characters of a prompt; Chinese ones count double
const MAX_SETTINGS = 3;
const MODEL = "model";
/** Settings that are derived from others, or that no two runs share. */
const LEFT_OUT = new Set(["seed"]);

/**
 * Return the names of the settings that differ among `runs`; "model" is first if `all` selectable runs use several
 * models.
 * @param {Pick<Run, "config" | "model">[]} runs
 */
export function settingsThatDiffer(runs, all = runs) {
  const names = new Set(runs.flatMap(({ config }) => Object.keys(config)));
  const values = (/** @type {string} */ name) => new Set(runs.map(({ config }) => JSON.stringify(config[name])));
  const found = [...names].filter((name) => !LEFT_OUT.has(name) && values(name).size > 1);
  return new Set(all.map(({ model }) => model)).size > 1 ? [MODEL, ...found] : found;
}

/**
 * Name of a run. `differing`: settings that distinguish it.
 * @param {Run} run
 * @param {string[]} differing
 * @param {Date} [now]
 */
export function runName(run, differing, now = new Date()) {
  const own = run.name && !run.name.startsWith(`${run.model} `) ? run.name : ""; // other names are generated
  const what = (run.title ? inLanguage(run.title) : own) || shortened(run.preview);
  return [
    what ? what : t("compare.unnamed"),
    ...(run.fork ? [t("compare.fork_of", { at: run.fork.at })] : []),
    run.requests === null
      ? t("compare.records", { n: grouped(run.records) })
      : t("compare.num_requests", { n: grouped(run.requests), count: run.requests }),
    ...differing.slice(0, MAX_SETTINGS).flatMap((name) => settingOf(run, name)),
    ...(run.created ? [timeText(run.created, now)] : []),
  ].join(" · ");
}

/** @param {Run} run @param {string} name */
function settingOf({ config, model }, name) {
  if (name === MODEL) return [model];
  const value = config[name];
  if (value === undefined || value === null || value === "") return [];
  return name === "strategy" ? [String(value)] : [`${settingName(name)} ${settingValue(name, value)}`];
}

/** Return the beginning of a prompt in quotation marks. @param {string} text */
function shortened(text) {
  let room = PROMPT;
  let start = "";
  for (const character of text.trim().split("\n")[0]) {
    room -= character > "\u2e80" ? 2 : 1;
    if (room < 0) return `“${start.trimEnd()}…”`;
    start += character;
  }
  return start && `“${start}”`;
}

/** Format a time: hours and minutes today, else with the date. @param {string} iso @param {Date} now */
function timeText(iso, now) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso.slice(0, 16);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return at.toDateString() === now.toDateString() ? time : `${day} ${time}`;
}
