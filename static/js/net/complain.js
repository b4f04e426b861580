// Saying what went wrong, for a while.

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
  const words = objection ? await import("../tell/objections.js").catch(() => null) : null;
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
