// Benchmark run on the server: start, progress and stop over the socket (docs/reference/protocol.md).

import { signal } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { Client, NoAnswer } from "../net/client.js";
import { link } from "./link.js";
import { chosenOf, fetchIndex, goTo, notify, recordsOf } from "./store.js";

/** @import {RunStatus} from "../core/bench.js" */

/** Last reported status of the latest run; null until reported. */
export const run = signal(/** @type {RunStatus | null} */ (null));

/** Time at which that status arrived, in ms of the page's clock. */
let receivedAt = 0;

/**
 * Return the remaining seconds of the run: those last reported minus the time since then; null if unknown.
 * @param {RunStatus} status
 */
export const secondsLeft = ({ seconds_left: left }) =>
  left === null ? null : Math.max(0, left - (performance.now() - receivedAt) / 1000);

/** @type {Client | null} */
let client = null;
let numReceived = 0; // number of pushed status messages

/** Connect and follow running benchmarks. */
export function followRuns() {
  const ignore = () => {};
  client = new Client({
    connect: () => ask("bench_follow"),
    disconnect: () => (run.value = null),
    status: ignore,
    reset: ignore,
    closed: ignore,
    records: ignore,
  });
  client.socket.on("bench_progress", receiveStatus);
}

/** @param {RunStatus} status */
async function receiveStatus(status) {
  numReceived += 1;
  const before = run.value;
  receivedAt = performance.now();
  run.value = status;
  if (status.state !== "done" || before?.run === status.run) return;
  await fetchIndex();
  if (before && before.state !== "done" && link.scenario.value === status.scenario) show(status);
}

/** Show the record of a finished run beside the scenario's other records. @param {RunStatus} status */
export function show(status) {
  goTo(status.scenario);
  const chosen = chosenOf(status.scenario);
  const order = recordsOf(status.scenario).map((entry) => entry.id);
  link.records.value = [...new Set([...chosen, status.run])].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  notify(t("bench.run.done"));
}

/**
 * Send a request and return whether it succeeded. An error is displayed.
 * @param {"bench_follow" | "bench_run" | "bench_stop"} event
 * @param {{scenario?: string, rounds?: number}} body
 */
export async function ask(event, body = {}) {
  const before = numReceived;
  try {
    if (!client) return false;
    const { status } = await client.ask(event, body);
    if (numReceived !== before) return true; // a status pushed since the request is newer
    receivedAt = performance.now();
    run.value = status;
    return true;
  } catch (error) {
    if (error instanceof Error && !(error instanceof NoAnswer)) notify(error.message, true);
    return false;
  }
}
