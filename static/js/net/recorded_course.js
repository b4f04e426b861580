// Course of a lesson whose runs are recordings. Only the part that the learner may see is copied into the page's log.

import { parseTrace } from "../core/file.js";
import { progressOf } from "../core/lesson_replay.js";
import { own } from "../state/run.js";
import { embeddedLesson, embeddedRun, isEmbedded, siteLesson, siteLessonRun } from "../state/without_server.js";
import { ArrivingTrace } from "./arriving_trace.js";
import { NoAnswer } from "./client.js";
import { extendOwn } from "./followed_run.js";
import { session } from "./session.js";

/** @import {Transcript} from "../core/lesson_replay.js" */
/** @import {LessonReplayed} from "../core/wire.js" */
/** @import {Course, Given} from "./live_course.js" */

/**
 * @typedef {import("../core/wire.js").LessonRetell} ReplayRequest
 * @typedef {(request: ReplayRequest) => Promise<LessonReplayed>} Replay
 */

/** Return the course of recorded lessons, on this server or in the page's files. @param {boolean} hasServer */
export const recordedCourse = (hasServer) =>
  hasServer ? recorded("server", replayByServer) : recorded("file", replayInPage);

/** @param {"server" | "file"} source @param {Replay} replay @returns {Course} */
function recorded(source, replay) {
  /** @typedef {Pick<ReplayRequest, "lesson" | "language"> & {answers: Record<string, Given[]>}} Attempt */
  /** @type {Attempt} */
  let now = { lesson: "", language: "", answers: {} };
  /** @type {{log: unknown, run: number} | null} copied run, and the log that has it */
  let copied = null;
  /**
   * Advance to item `at`, and copy the records that it needs.
   * @param {Attempt} attempt
   * @param {number} at
   * @param {number} since
   */
  async function reach(attempt, at, since) {
    const state = await replay({ ...attempt, at, since, ...copiedPart() });
    copyRecords(state);
    while (own.numRecords.peek() < state.num_records) {
      const more = await replay({ ...attempt, at, since, ...copiedPart() });
      if (!more.records.length) throw new Error(`no more records of the ${state.num_records} that were announced`);
      copyRecords(more);
    }
    now = attempt;
    return state;
  }
  const copiedPart = () =>
    copied && copied.log === own.log.peek()
      ? { run: copied.run, first: own.numRecords.peek() }
      : { run: null, first: 0 };
  /** @param {LessonReplayed} state */
  function copyRecords({ run, header, first_record, records, captures }) {
    if (copiedPart().run !== run) {
      session.showEmpty(header);
      copied = { log: own.log.peek(), run };
    }
    extendOwn({ first: first_record, records, captures });
  }
  return {
    source,
    open({ lesson, language, at, answers }) {
      copied = null;
      return reach({ lesson, language, answers: { ...answers } }, at, 0);
    },
    go: (_, item) => reach(now, item + 1, item),
    answer(_, item, given) {
      const { answers } = now;
      return reach({ ...now, answers: { ...answers, [item]: [...(answers[item] ?? []), given] } }, item + 1, item);
    },
    follow: async () => {},
  };
}

/** @type {Replay} */
async function replayByServer(message) {
  const { client } = session;
  if (!client) throw new NoAnswer("there is no server");
  return client.ask("lesson_retell", message);
}

/** @type {Replay} */
async function replayInPage({ lesson, language, at = -1, answers = {}, since = 0, run = null, first = 0 }) {
  const transcript = await transcriptOf(lesson, language);
  const progress = progressOf(transcript, at, answers);
  const trace = await traceOf(transcript, progress.moment);
  const from = run === progress.moment.run ? first : 0;
  const { kind, title, minutes, words } = transcript;
  return {
    ...{ theater: "", lesson, language: transcript.language, kind, title, minutes, words },
    ...{ first: since, items: progress.items.slice(since), progress: progress.progress },
    ...{ run: progress.moment.run, num_records: progress.moment.records, header: trace.header, first_record: from },
    records: trace.records.slice(from, progress.moment.records),
    captures: trace.captures.slice(from, progress.moment.records),
  };
}

/** @type {Map<string, Promise<Transcript>>} by lesson and language */
const transcripts = new Map();

/** @param {string} lesson @param {string} code @returns {Promise<Transcript>} */
function transcriptOf(lesson, code) {
  const key = `${lesson}.${code}`;
  const known = transcripts.get(key) ?? (isEmbedded ? embedded(code) : fetched(siteLesson(lesson, code)));
  transcripts.set(key, known);
  known.catch(() => transcripts.delete(key)); // the next request retries
  return known;
}

/** Return a transcript in the page's language, or in another available one. @param {string} code */
async function embedded(code) {
  const { transcripts: found } = await embeddedLesson();
  return found[code] ?? Object.values(found)[0];
}

/** @param {string} address @returns {Promise<Transcript>} */
async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new NoAnswer(`${address}: ${answer.status}`);
  return answer.json();
}

/** @type {{key: string, trace: ReturnType<typeof parseTrace>} | null} last parsed embedded run */
let last = null;

/** @type {Map<string, ArrivingTrace>} runs of a site, by address */
const arriving = new Map();

/**
 * Return a run with at least its first `count` records.
 * @param {Transcript} transcript
 * @param {import("../core/wire.js").Moment} moment
 */
async function traceOf({ lesson, language, num_runs }, { run, records }) {
  if (!isEmbedded) {
    if (run + 1 < num_runs)
      ofSite(lesson, language, run)
        .upTo(Infinity)
        .then(next, () => {});
    return ofSite(lesson, language, run).upTo(records);
  }
  const key = `${language}.${run}`;
  if (last?.key !== key) last = { key, trace: parseTrace(await embeddedRun(language, run)) };
  return last.trace;

  /** Prefetch the next run once this one is loaded. */
  function next() {
    ofSite(lesson, language, run + 1);
  }
}

/** @param {string} lesson @param {string} code @param {number} run */
function ofSite(lesson, code, run) {
  const address = new URL(siteLessonRun(lesson, code, run), document.baseURI);
  const known = arriving.get(address.href);
  if (known && !known.hasFailed) return known;
  const trace = new ArrivingTrace(address);
  arriving.set(address.href, trace);
  return trace;
}
