// Two runs of this server side by side: which two, and what the server says of them, asked again as long as one grows.

import { batch, computed, effect, signal } from "../../../vendor/signals/signals.js";
import { command } from "../../net/commands.js";
import { session } from "../../net/session.js";
import { settings } from "../../state/settings.js";
import { connection, goTo, numRecords } from "../../state/store.js";

const SOON = 300; // ms after a change
const AGAIN = 1500; // ms between two questions while a run that is not on stage goes on

/** The two runs, by the id of their theater or recording: the first is the one on stage unless another was chosen. */
export const chosen = computed(() => ({ a: settings.run_a.value ?? settings.theater.value, b: settings.run_b.value }));

/** The answer of /api/compare; null while there is none. */
export const comparison = signal(null);
/** Why there is none, as the server said it; null. */
export const problem = signal(null);
/** What can be compared: [{id, name, title, kind: "theater" or "recording", config, records, fork}]. */
export const runs = signal([]);

const moved = signal(0); // grows when a run that is not on stage was stepped from here

/** Ask as long as the panel is there. Returns the way to stop. */
export function followComparison() {
  let timer = null;
  let last = 0; // questions asked
  let answered = 0; // the latest of them whose answer is shown
  const later = (ms) => (timer ??= setTimeout(ask, ms));
  async function ask() {
    timer = null;
    const mine = ++last;
    const { a, b } = chosen.peek();
    try {
      const [listed, answer] = await Promise.all([
        listRuns(),
        a && b ? fetchJson(`/api/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`) : null,
      ]);
      const now = chosen.peek();
      if (mine < answered || now.a !== a || now.b !== b) return;
      answered = mine;
      runs.value = listed;
      problem.value = answer?.error?.message ?? null;
      comparison.value = answer && !answer.error ? answer : null;
      if (answer?.runs?.some(({ status }) => status.fork?.active || (status.mode === "running" && status.unfinished)))
        later(AGAIN);
    } catch {
      if (mine === last) later(4 * AGAIN); // the server is away: the page says so elsewhere
    }
  }
  const stop = effect(() => {
    chosen.value;
    numRecords.value;
    connection.value;
    moved.value;
    later(SOON);
  });
  return () => {
    stop();
    clearTimeout(timer);
    last = -1;
    answered = Infinity;
  };
}

/** Whether there is something left to compute in one of the two. */
export const canContinue = computed(() => comparison.value?.runs.some(({ status }) => continues(status)) ?? false);

const continues = (status) => status.mode === "paused" && status.unfinished > 0 && !status.fork?.active;

/** Take up to `count` steps of both runs, each as far as it has something to compute. */
export async function continueBoth(count) {
  for (const { theater, status } of comparison.peek()?.runs ?? [])
    if (continues(status)) await command("step", { theater, count });
  moved.value += 1;
}

/** Show record `index` of run `side` on the stage, which follows that run then. */
export async function look(side, index) {
  const { a, b } = chosen.peek();
  const id = side === "a" ? a : b;
  if (id === settings.theater.peek()) return goTo(index);
  // the first is named, so that it stays the first when another run is on stage
  if (await session.watch(id, index)) batch(() => ((settings.run_a.value = a), (settings.run_b.value = b)));
}

async function listRuns() {
  const [{ theaters }, kept] = await Promise.all([fetchJson("/api/theaters"), fetchJson("/api/recordings")]);
  return [
    ...theaters.map(({ theater, name, config, status }) => ({
      id: theater,
      name,
      kind: "theater",
      config,
      records: status.num_records,
      fork: status.fork,
    })),
    ...(kept.recordings ?? []).map(({ id, name, title, summary }) => ({
      id,
      name,
      title,
      kind: "recording",
      config: summary.config,
      records: summary.num_records,
      fork: null,
    })),
  ];
}

const fetchJson = async (address) => (await fetch(address)).json();
