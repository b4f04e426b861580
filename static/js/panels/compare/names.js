// Distinct display names of runs: the name or the beginning of the first prompt, the number of
// requests, the settings that differ, the start time. Pure.

import { grouped, inLanguage, t } from "../../i18n/words.js";
import { settingName, settingValue } from "./verdict.js";

/** @import {Run} from "./model.js" */

const MAX_PROMPT = 20; // characters of the prompt; Chinese characters count double
const MAX_SETTINGS = 3;
const MODEL = "model";
/** Settings that are derived from others, or that no two runs share. */
const IGNORED = new Set(["seed"]);

/**
 * Return the names of the settings that differ among `runs`; "model" is first if `all` selectable runs use several
 * models.
 * @param {Pick<Run, "config" | "model">[]} runs
 */
export function settingsThatDiffer(runs, all = runs) {
  const names = new Set(runs.flatMap(({ config }) => Object.keys(config)));
  const values = (/** @type {string} */ name) => new Set(runs.map(({ config }) => JSON.stringify(config[name])));
  const found = [...names].filter((name) => !IGNORED.has(name) && values(name).size > 1);
  return new Set(all.map(({ model }) => model)).size > 1 ? [MODEL, ...found] : found;
}

/**
 * Name of a run. `differing` has the settings that distinguish it.
 * @param {Run} run @param {string[]} differing
 * @param {Date} [now]
 */
export function runName(run, differing, now = new Date()) {
  const own = run.name && !run.name.startsWith(`${run.model} `) ? run.name : ""; // other names are generated
  const title = (run.title ? inLanguage(run.title) : own) || shortened(run.preview);
  return [
    title || t("compare.unnamed"),
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
  let remaining = MAX_PROMPT;
  let start = "";
  for (const character of text.trim().split("\n")[0]) {
    remaining -= character > "\u2e80" ? 2 : 1;
    if (remaining < 0) return `“${start.trimEnd()}…”`;
    start += character;
  }
  return start && `“${start}”`;
}

/** Format a time; the date is omitted if it is today's. @param {string} iso @param {Date} now */
function timeText(iso, now) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso.slice(0, 16);
  const twoDigits = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${twoDigits(date.getMonth() + 1)}-${twoDigits(date.getDate())}`;
  const time = `${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}`;
  return date.toDateString() === now.toDateString() ? time : `${day} ${time}`;
}
