// The way into a class, after each connect: as its presenter, whose secret this browser keeps, or with a seat, which
// the server knows by a cookie.

import { batch } from "../../vendor/signals/signals.js";
import { desk, isLed, mine, presenting, roaming, told } from "../state/classroom.js";
import { settings } from "../state/settings.js";
import { language } from "../tell/language.js";
import { NoAnswer, Refusal } from "./client.js";
import { complain } from "./complain.js";

/**
 * @typedef {import("./client.js").Client} Client
 */

const KEY = "kvtheater.class"; // in this browser's memory: a class, and the secret of its presenter

/**
 * Enter the class of the address. What this page is to follow there; nothing (""): the class has nothing on stage yet.
 *
 * @param {Client} client
 * @param {string | null} own what it would follow by itself
 * @returns {Promise<string | null>}
 */
export async function runOfClass(client, own) {
  const id = settings.class.peek() ?? "";
  try {
    if (await asPresenter(client, id)) return isLed.peek() ? (told.peek()?.theater ?? own) : own;
    const entered = await client.ask("class_enter", { language: language.peek() ?? "en" });
    batch(() => {
      told.value = entered.told;
      mine.value = entered.mine;
      presenting.value = desk.value = null;
    });
    return roaming.peek() ? own : (entered.told.theater ?? "");
  } catch (error) {
    if (error instanceof NoAnswer) throw error;
    complain(error);
    leaveClass();
    return own;
  }
}

/**
 * @param {Client} client
 * @param {string} id
 */
async function asPresenter(client, id) {
  const kept = readKept();
  if (kept?.id !== id) return false;
  try {
    take(await client.ask("class_present", { id, secret: kept.secret, origin: location.origin }));
    return true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    keep(null);
    return false;
  }
}

/** The class goes on, or ends, without this page. */
export function leaveClass() {
  batch(() => {
    settings.class.value = null;
    told.value = mine.value = presenting.value = desk.value = null;
    roaming.value = false;
  });
}

/** This page presents a class. @param {import("../core/wire.js").Presenting} now */
export function take(now) {
  batch(() => {
    presenting.value = now;
    told.value = now.told;
    desk.value = now.desk;
    mine.value = null;
  });
}

/**
 * A file about the class, for its presenter: the secret goes in a header, never in an address.
 *
 * @param {string} name below the class's address
 * @returns {Promise<Blob>}
 */
export async function fileOf(name) {
  const kept = readKept();
  const answer = await fetch(`api/class/${kept?.id}/${name}?lang=${language.peek()}`, {
    headers: { "X-KVTheater-Class": kept?.secret ?? "" },
  });
  if (!answer.ok) throw new Refusal((await answer.json()).error);
  return answer.blob();
}

/** @returns {{id: string, secret: string} | null} */
function readKept() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "null");
  } catch {
    return null; // refused in some private windows: the page presents until it is closed
  }
}

/** This browser presents a class, or none any more. @param {{id: string, secret: string} | null} what */
export function keep(what) {
  try {
    if (what) localStorage.setItem(KEY, JSON.stringify(what));
    else localStorage.removeItem(KEY);
  } catch {
    // as above
  }
}
