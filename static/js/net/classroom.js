// Entering a class after each connect: as its presenter with a secret stored in this browser, or with a seat that
// the server identifies by a cookie.

import { batch } from "../../vendor/signals/signals.js";
import { language } from "../i18n/language.js";
import { t } from "../i18n/words.js";
import {
  attendance,
  attends,
  classState,
  forgotten,
  isGuest,
  isLed,
  ownSeat,
  presenting,
  receiveState,
  roaming,
} from "../state/classroom.js";
import { settings } from "../state/settings.js";
import { toast } from "../state/store.js";
import { NoAnswer, Refusal } from "./client.js";
import { showFailure } from "./errors.js";

/** @import {Client} from "./client.js" */

const KEY = "kvtheater.class"; // in local storage: the secret of each class that this browser presents
const MAX_SECRETS = 8; // classes
const RETRY_MS = 1000; // until a busy server is retried, plus a random time of up to as much
const PERMANENT = ["forbidden", "not_found", "refused"]; // error codes that a retry does not change

/** Secrets for browsers without storage, until the page is closed. @type {Record<string, string>} */
const secrets = {};

/**
 * Enter the class of the address. Returns the run to follow there, or "" if the stage is empty or the server is
 * unreachable again.
 * @param {Client} client
 * @param {string | null} own run that the page would follow outside a class
 * @returns {Promise<string | null>}
 */
export async function runOfClass(client, own) {
  const id = settings.class.peek() ?? "";
  const wasPresenter = secretOf(id) !== null;
  if (isIn(id) && classState.peek()?.over) return own;
  try {
    if (await asPresenter(client, id)) return isLed.peek() ? (classState.peek()?.theater ?? own) : own;
    const entered = await retryUntilAccepted(() => client.ask("class_enter", { language: language.peek() ?? "en" }));
    batch(() => {
      receiveState(entered.state);
      ownSeat.value = entered.mine;
      isGuest.value = entered.guest;
      presenting.value = attendance.value = null;
    });
    return roaming.peek() ? own : (classState.peek()?.theater ?? "");
  } catch (error) {
    if (error instanceof NoAnswer) return ""; // the next connect enters the class
    const isForgotten = error instanceof Refusal && error.code === (ownSeat.peek() ? "forbidden" : "not_found");
    if (isIn(id) && isForgotten) {
      end();
      return own;
    }
    // without a valid secret the page requests a seat; the resulting error is worded for followers
    if (wasPresenter && error instanceof Refusal) toast(t("class.gone"), "error");
    else showFailure(error);
    leaveClass();
    return own;
  }
}

/** Return the address of this page's folder without the trailing slash. */
export const address = () => new URL(".", document.baseURI).href.replace(/\/$/, "");

/** @param {Client} client @param {string} id */
async function asPresenter(client, id) {
  const secret = secretOf(id);
  if (!secret) return false;
  try {
    startPresenting(await retryUntilAccepted(() => client.ask("class_present", { id, secret, base: address() })));
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.code === "not_found") throw error; // the secret stays for this browser's other pages
    storeSecret(id, null);
    return false;
  }
}

/**
 * Retry `ask` until it succeeds or fails permanently. A server with hundreds of reconnecting clients is busy for a
 * moment.
 * @template T
 * @param {() => Promise<T>} ask
 * @returns {Promise<T>}
 */
async function retryUntilAccepted(ask) {
  for (;;)
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Refusal) || PERMANENT.includes(error.code)) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS * (1 + Math.random())));
    }
}

/** Return whether this page has entered the class, which may be over. @param {string} id */
const isIn = (id) => classState.peek()?.id === id && (ownSeat.peek() !== null || presenting.peek() !== null);

/** Mark the class as over for this page, as the server no longer has it. */
export function end() {
  const now = classState.peek();
  if (!now) return;
  batch(() => {
    classState.value = { ...now, over: true };
    forgotten.value = true;
  });
}

/** Leave the class at the user's request. A guest goes to the page for entering the code of a class. */
export function exitClass() {
  if (isGuest.peek()) location.assign(new URL("j/", document.baseURI));
  else leaveClass();
}

/** Leave the class, which may continue without this page. */
export function leaveClass() {
  const isOfClass = settings.viewMode.peek() === "teacher" || (attends.peek() && settings.viewMode.peek() === "lesson");
  batch(() => {
    settings.class.value = null;
    if (isOfClass) [settings.viewMode.value, settings.lesson.value] = ["intro", null]; // these views need the class
    classState.value = ownSeat.value = presenting.value = attendance.value = null;
    roaming.value = forgotten.value = false;
  });
}

/** Start presenting a class. @param {import("../core/wire.js").Presenting} now */
export function startPresenting(now) {
  batch(() => {
    forgotten.value = false;
    presenting.value = now;
    receiveState(now.state);
    attendance.value = now.desk;
    ownSeat.value = null;
  });
}

/**
 * Fetch a file about the class, for its presenter. The secret goes in a header, never in an address.
 * @param {string} name path below the class's address
 * @returns {Promise<Blob>}
 */
export async function fileOf(name) {
  const id = classState.peek()?.id ?? "";
  const answer = await fetch(`api/${forgotten.peek() ? "classes" : "class"}/${id}/${name}?lang=${language.peek()}`, {
    headers: { "X-KVTheater-Class": secretOf(id) ?? "" },
  });
  if (!answer.ok) throw new Refusal((await answer.json()).error);
  return answer.blob();
}

/** @param {string} id of a class @returns {string | null} */
const secretOf = (id) => secrets[id] ?? readSecrets()[id] ?? null;

/** @returns {Record<string, string>} */
function readSecrets() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") ?? {};
  } catch {
    return {}; // refused in some private windows
  }
}

/**
 * Store the secret of a class that this browser presents; null removes it.
 * @param {string} id
 * @param {string | null} secret
 */
export function storeSecret(id, secret) {
  const { [id]: _, ...others } = readSecrets();
  delete secrets[id];
  if (secret) secrets[id] = secret;
  const all = Object.entries(secret ? { ...others, [id]: secret } : others).slice(-MAX_SECRETS);
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(all)));
  } catch {
    // `secrets` has it
  }
}
