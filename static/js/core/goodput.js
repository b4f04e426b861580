// Goodput: requests per second that met their service level objectives (DistServe, arXiv 2401.09670). Mirrors
// engine/trace/goodput.py; a test compares their numbers. Pure.

/** @import {Row} from "./requests.js" */

/**
 * Objectives, in seconds.
 *
 * @typedef {{ttft: number, tpot: number}} Slo
 * @typedef {{met: number, ended: number, perSecond: number | null, missed: Row[]}} Goodput `missed`: the sequences that
 *   did not meet the objective, of ended requests
 */

const CUSTOM = /^ttft:(\d{1,9}(?:\.\d{1,3})?),tpot:(\d{1,9}(?:\.\d{1,3})?)$/;

/**
 * Parse an objective: the name of an application, or milliseconds as in `ttft:250,tpot:100`.
 * @param {string} text
 * @param {Record<string, Slo>} applications by name
 * @returns {Slo | undefined}
 */
export function sloOf(text, applications) {
  if (Object.hasOwn(applications, text)) return applications[text];
  const [ttft, tpot] = CUSTOM.exec(text)?.slice(1).map(Number) ?? [0, 0];
  return ttft > 0 && tpot > 0 ? { ttft: ttft / 1000, tpot: tpot / 1000 } : undefined;
}

/** @param {Slo} slo */
export const sloText = ({ ttft, tpot }) => `ttft:${milliseconds(ttft)},tpot:${milliseconds(tpot)}`;

/** @param {number} seconds */
export const milliseconds = (seconds) => Number((seconds * 1000).toFixed(3));

/** Return whether a row meets the objective; a single token has no TPOT. @param {Row} row @param {Slo} slo */
const isMet = ({ ttft, tpot }, slo) => ttft !== null && ttft <= slo.ttft && (tpot === null || tpot <= slo.tpot);

/**
 * Return the goodput. A request meets the objective if all its sequences do; discarded beams are not counted.
 * @param {readonly Row[]} rows
 * @param {number} seconds total of all engine steps
 * @param {Slo} slo
 * @returns {Goodput}
 */
export function goodput(rows, seconds, slo) {
  /** @type {Map<string, Row[]>} */
  const requests = new Map();
  for (const row of rows)
    if (row.end !== "dropped") requests.set(row.request, [...(requests.get(row.request) ?? []), row]);
  const ended = [...requests.values()].filter((all) => all.every(({ end }) => end === "stop" || end === "length"));
  const missed = ended.flat().filter((row) => !isMet(row, slo));
  const met = ended.filter((all) => all.every((row) => isMet(row, slo))).length;
  return { met, ended: ended.length, perSecond: seconds ? met / seconds : null, missed };
}
