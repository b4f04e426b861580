// Why there is no run to follow, as an entry of the page's words: it is told in the language that is spoken then.

import { Refusal } from "./client.js";

/** @typedef {{key: string, values?: Record<string, string>}} Trouble */

/** On a server that has neither a model nor a recording. */
export const NOTHING_HERE = "library.nothing_here";

/**
 * The server closed it.
 *
 * @param {import("../core/wire.js").Closed} message
 * @returns {Trouble}
 */
export const closedBecause = ({ cause, detail }) => ({ key: `closed.${cause}`, values: { detail } });

/**
 * The server refused one, and said why.
 *
 * @param {{message: string}} refusal
 * @returns {Trouble}
 */
export const refusedBy = ({ message }) => ({ key: "closed.refused", values: { text: message } });

/** Whether the server has no such run. @param {unknown} error */
export const isUnknown = (error) => error instanceof Refusal && error.code === "unknown_theater";
