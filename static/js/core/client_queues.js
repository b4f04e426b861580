// Requests per client in a record: waiting for the client's turn, queued in the engine, scheduled, and streamed.
// The wait for a turn is not recorded; the later submission contains its duration. Pure.

import { folding } from "./folds.js";
import { RequestParts } from "./request_parts.js";

/** @import {TraceLog} from "./log.js" */

/**
 * @typedef {{record: number, at: number, since: number, client: string}} Entry submission: its time and the start of
 * its wait, in seconds since the trace began
 * @typedef {{seq: number, bytes: Uint8Array, end: string | null}} Streamed a token chosen in the record, and the finish
 * reason if the sequence ended with it
 * @typedef {object} ClientRow
 * @property {string} client
 * @property {number} ahead requests waiting for the client's turn
 * @property {number[]} queued sequences in the engine's queue
 * @property {number[]} running sequences with blocks
 * @property {number} tokens of its sequences computed by the step
 * @property {Streamed[]} streamed
 */

class Clients {
  length = 0;
  /** @type {Entry[]} in record order */
  entries = [];
  /** @type {Map<number, string>} by sequence */
  bySeq = new Map();

  /** @param {TraceLog} log */
  constructor(log) {
    this.parts = new RequestParts(log);
  }

  /** @param {import("./trace.js").StepRecord} record */
  append({ ops = [], timing, instance = 0 }) {
    for (const op of ops) {
      const { before } = this.parts.read(op, instance);
      if (op.type === "submit" && op.client) {
        this.bySeq.set(op.seq_id, op.client);
        if (before !== null) continue; // the request continues on another instance
        const since = timing.at - (op.waited ?? 0);
        this.entries.push({ record: this.length, at: timing.at, since, client: op.client });
      } else if (op.type === "fork") {
        const client = this.bySeq.get(op.parent_seq_id);
        if (client) this.bySeq.set(op.seq_id, client);
      }
    }
    this.length += 1;
  }
}

const clientsOf = folding(
  (/** @type {TraceLog} */ log) => new Clients(log),
  (clients, record) => clients.append(record),
);

/** Return whether the log names the clients of its requests. @param {TraceLog} log */
export const hasClients = (log) => clientsOf(log).entries.length > 0;

/**
 * Return the clients with requests or tokens in record `index`, in the order of their arrival. `waiting`: current
 * number of waiting requests by client, from the server; null for a past record: later submissions determine it
 * (requests that left before submission are in no log).
 * @param {TraceLog} log
 * @param {number} index
 * @param {Record<string, number> | null} [waiting]
 * @returns {ClientRow[]}
 */
export function clientsAt(log, index, waiting = null) {
  const { entries, bySeq } = clientsOf(log);
  /** @type {Map<string, ClientRow>} */
  const rows = new Map();
  const rowOf = (/** @type {string} */ client) => {
    let row = rows.get(client);
    if (!row) rows.set(client, (row = { client, ahead: 0, queued: [], running: [], tokens: 0, streamed: [] }));
    return row;
  };
  const known = new Set(entries.map(({ client }) => client));
  for (const client of known) rowOf(client);
  if (waiting) for (const [client, count] of Object.entries(waiting)) rowOf(client).ahead = count;
  else {
    const now = log.records[index]?.timing.at ?? 0;
    for (const { record, since, client } of entries) if (record > index && since <= now) rowOf(client).ahead += 1;
  }
  const record = log.records[index];
  const state = log.stateAt(index);
  const rowOfSeq = (/** @type {number} */ seq) => {
    const client = bySeq.get(seq);
    return client === undefined ? undefined : rowOf(client);
  };
  for (const seq of [...state.waiting, ...state.receiving]) rowOfSeq(seq)?.queued.push(seq);
  for (const seq of state.running) rowOfSeq(seq)?.running.push(seq);
  for (const { seq_id: seq, token_ids: tokens } of record?.batch ?? []) {
    const row = rowOfSeq(seq);
    if (row) row.tokens += tokens.length;
  }
  const ends = new Map((record?.ops ?? []).flatMap((op) => (op.type === "finish" ? [[op.seq_id, op.reason]] : [])));
  for (const { seq_id: seq, token_bytes: bytes } of record?.outputs ?? [])
    rowOfSeq(seq)?.streamed.push({ seq, bytes, end: ends.get(seq) ?? null });
  return [...rows.values()].filter(
    ({ ahead, queued, running, tokens, streamed }) =>
      ahead || queued.length || running.length || tokens || streamed.length,
  );
}
