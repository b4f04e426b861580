// Errors shown as toasts, and reasons for having no run to follow, as keys of the page's words.

import { t } from "../i18n/words.js";
import { toast } from "../state/store.js";
import { NoAnswer, Refusal } from "./client.js";

/** @typedef {import("../core/wire.js").Status["objection"]} Objection */

/**
 * Show the server's sentence, or a guard's objection in the page's language.
 * @param {string} message
 * @param {Objection} objection
 */
export async function showError(message, objection) {
  const words = objection ? await import("../i18n/operations.js").catch(() => null) : null;
  toast(words && objection ? words.stepFailed(objection) : message, "error");
}

/** Show why a request failed; rethrow errors that do not come from the server. @param {unknown} error */
export function showFailure(error) {
  if (error instanceof NoAnswer) toast(t("error.no_answer"), "error");
  else if (error instanceof Refusal && error.code === "loading") toast(t("connection.not_yet"), "error");
  else if (error instanceof Refusal) showError(error.message || t("error.internal"), error.objection);
  else throw error;
}

/** @typedef {{key: string, values?: Record<string, string>}} Reason */

/** Key for a server that has neither a model nor a recording. */
export const NOTHING_HERE = "library.nothing_here";

/** Key for a server that requires a token this browser does not have. */
export const BARRED = "closed.barred";

/** Key for a server that was stopped. */
export const STOPPED = "closed.shutdown";

/**
 * Return the reason of a run closed by the server.
 * @param {import("../core/wire.js").Closed} message
 * @returns {Reason}
 */
export const closedReason = ({ cause, detail }) => ({ key: `closed.${cause}`, values: { detail } });

/** Return the reason of a refused request. @param {{message: string}} refusal @returns {Reason} */
export const refusedReason = ({ message }) => ({ key: "closed.refused", values: { text: message } });

/** Return whether the server does not know the run. @param {unknown} error */
export const isUnknown = (error) => error instanceof Refusal && error.code === "unknown_theater";
