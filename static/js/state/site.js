// A static site: this page and recordings as plain files, without a server (`kvtheater export --site`).

import { settings } from "./settings.js";

/** Whether the page belongs to a static site. */
export const isSite = globalThis.document?.getElementById("kvtheater-site") != null;

/** Return the address of a recording on a site. @param {string} id */
export const siteRecording = (id) => `runs/${id}.kvtrace`;

/**
 * Return the address of a recorded lesson's transcript on a site.
 * @param {string} lesson
 * @param {string} code of a language
 */
export const siteLesson = (lesson, code) => `lessons/${lesson}.${code}.json`;

/** @param {string} lesson @param {string} code @param {number} run */
export const siteLessonRun = (lesson, code, run) => `lessons/${lesson}.${code}.${run}.kvtrace`;

/** Return the recording that a site shows if the link names none. */
export const firstOfSite = () => `rec-opening-${settings.lang.value}`;

/**
 * A recorded what-if branch: the run `of` continued with `token_id` for sequence `seq` in `record`.
 *
 * @typedef {{of: string, record: number, seq: number, token_id: number, id: string}} Future
 */
