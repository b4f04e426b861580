// Errors displayed as toasts, and reasons why there is no run to follow, as keys of texts.

import { t } from "../i18n/words.js";
import { toast } from "../state/store.js";
import { NoAnswer, Refusal } from "./client.js";

/** @typedef {import("../core/wire.js").Status["objection"]} Objection */

/**
 * Display the server's message, or a guard's objection in the page's language.
 * @param {string} message
 * @param {Objection} objection
 */
export async function showError(message, objection) {
  const words = objection ? await import("../i18n/operations.js").catch(() => null) : null;
  toast(words && objection ? words.stepFailed(objection) : message, "error");
}

/** Display why a request failed. Rethrows other errors. @param {unknown} error */
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

/** Return whether an error says that the server does not have the run. @param {unknown} error */
export const isUnknown = (error) => error instanceof Refusal && error.code === "unknown_theater";
