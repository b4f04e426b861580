// A site: this page and recordings as plain files, without a server (`kvtheater export --site`).

import { settings } from "./settings.js";

/** Whether the page is one of a site. */
export const isSite = globalThis.document?.getElementById("kvtheater-site") != null;

/**
 * Where a site has a recording.
 *
 * @param {string} id
 */
export const siteRecording = (id) => `runs/${id}.kvtrace`;

/**
 * Where a site has a recorded lesson's transcript, and its runs.
 *
 * @param {string} lesson
 * @param {string} code of a language
 */
export const siteLesson = (lesson, code) => `lessons/${lesson}.${code}.json`;

/** @param {string} lesson @param {string} code @param {number} run */
export const siteLessonRun = (lesson, code, run) => `lessons/${lesson}.${code}.${run}.kvtrace`;

/** The recording that a site shows where a link names none. */
export const firstOfSite = () => `rec-opening-${settings.lang.value}`;

/**
 * A future that was recorded: what became of the run `of` when sequence `seq` got `token_id` in `record`.
 *
 * @typedef {{of: string, record: number, seq: number, token_id: number, id: string}} Future
 */
