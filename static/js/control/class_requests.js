// Requests to a class: opening it, and actions of its presenter and followers.

import { address, end, startPresenting, storeSecret } from "../net/classroom.js";
import { Refusal } from "../net/client.js";
import { session } from "../net/session.js";
import { askOpen, classState, ownSeat } from "../state/classroom.js";
import { settings } from "../state/settings.js";

/** @import {Events} from "../core/wire.js" */

/**
 * Open a class with this browser as its presenter.
 * @param {Pick<Events["class_open"]["request"], "title" | "names">} wish
 */
export async function openClass(wish) {
  const { client } = session;
  if (!client) return false;
  try {
    const opened = await client.ask("class_open", { ...wish, base: address() });
    storeSecret(opened.presenting.state.id, opened.secret);
    settings.class.value = opened.presenting.state.id;
    startPresenting(opened.presenting);
    return true;
  } catch (error) {
    session.reportFailure(error, client);
    return false;
  }
}

/**
 * Send a request to the class. If the response has this seat's state, store it.
 * @template {Extract<keyof Events, `class_${string}`>} E
 * @param {E} event
 * @param {Omit<Events[E]["request"], "id">} body
 * @returns {Promise<boolean>} whether it succeeded; a class that the server no longer has ends without a toast
 */
export async function requestOfClass(event, body) {
  const { client } = session;
  const now = classState.peek();
  if (!client || !now) return false;
  try {
    const request = /** @type {Events[E]["request"]} */ (OF_SEATS.includes(event) ? body : { id: now.id, ...body });
    const answer = await client.ask(event, request);
    if ("answers" in answer && "seat" in answer) ownSeat.value = /** @type {import("../core/wire.js").Mine} */ (answer);
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === "not_found" && !now.over) end();
    else session.reportFailure(error, client);
    return false;
  }
}

/** Ask the class the question at which the lesson waits. */
export async function askLesson() {
  if (await requestOfClass("class_ask", { kind: "lesson" })) askOpen.value = false;
}

/** Requests of followers: the server identifies the seat and class by itself. @type {string[]} */
const OF_SEATS = ["class_rename", "class_answer", "class_lost", "class_wish", "class_lab"];
