// Errors shown as toasts, and why there is no run to follow, as entries of the page's words.

import { toast } from "../state/store.js";
import { t } from "../tell/words.js";
import { NoAnswer, Refusal } from "./client.js";

/** @typedef {import("../core/wire.js").Status["objection"]} Objection */

/**
 * Show the server's sentence, or a guard's objection in the page's language.
 *
 * @param {string} message
 * @param {Objection} objection
 */
export async function tell(message, objection) {
  const words = objection ? await import("../tell/operations.js").catch(() => null) : null;
  toast(words && objection ? words.stepFailed(objection) : message, "error");
}

/**
 * Show why the server did not do it; an error that is not the server's goes on.
 *
 * @param {unknown} error
 */
export function complain(error) {
  if (error instanceof NoAnswer) toast(t("error.no_answer"), "error");
  else if (error instanceof Refusal && error.code === "loading") toast(t("connection.not_yet"), "error");
  else if (error instanceof Refusal) tell(error.message || t("error.internal"), error.objection);
  else throw error;
}

/** @typedef {{key: string, values?: Record<string, string>}} Trouble */

/** On a server that has neither a model nor a recording. */
export const NOTHING_HERE = "library.nothing_here";

/** The server wants a token that this browser does not have. */
export const BARRED = "closed.barred";

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
