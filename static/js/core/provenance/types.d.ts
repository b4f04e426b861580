// Selections, and the links of their provenance chains.

import type { KvTerms } from "../metrics.js";
import type { Entry } from "../operations.js";
import type { TraceLog } from "../log.js";
import type { Loaded } from "../slot_origins.js";
import type { Counterfactual } from "../counterfactual.js";
import type { Label } from "../labels.js";
import type { State, Status } from "../state_access.js";
import type { MessageKey } from "../messages.js";
import type { Lookup, LookupExternal, Op } from "../trace.js";

export type FigureName = "used" | "held" | "waste" | "cached" | "free" | "contiguous" | "token";

/** Has exactly the fields of one of: {position, query?, seq?}, {block, offset?}, {seq}, {record, op}, {figure}. */
export interface Selection {
  position?: number;
  query?: number;
  seq?: number;
  block?: number;
  offset?: number | null;
  record?: number;
  op?: number;
  figure?: FigureName;
}

/** View of the stage: the sequence that a position belongs to, and the layer and head of a weight. */
export interface View {
  seq?: number | null;
  layer?: number;
  head?: number;
}

/** Start of a chain: a record of a log, and the state after it. */
export interface At {
  log: TraceLog;
  index: number;
  state: State;
  layer: number;
  head: number;
}

interface Common {
  fidelity: "captured" | "derived" | "schematic";
  go?: number; // record that the link leads to
  select?: Selection; // selection that the link leads to
  layers?: number[]; // of the block group, if the run has several
}

interface Token {
  seq: number;
  position: number;
  label: Label;
  generated: boolean;
}

export interface Owner {
  seq: number;
  logical: number;
  how?: string; // type of the operation by which it got the block
  go?: number;
  at?: number;
}

export interface LifeEvent {
  record: number;
  at: number;
  type: Op["type"];
  seq?: number | null;
  from?: number; // slots that a write filled, `to` exclusive
  to?: number;
}

interface FigureTerm {
  slots: number;
  per_token: number;
  of_states: boolean;
  bytes: number;
  layers: number[];
}

interface Kinds {
  query: Token & { layer: number; head: number };
  weight: {
    seq: number;
    query: number;
    position: number;
    value: number | null;
    unseen: boolean;
    rank: number | null;
    of: number;
    layer: number;
    head: number;
  };
  key: Token & { layer: number; kv_head: number };
  nowhere: { seq: number; waits: boolean; sampled: boolean };
  released: { layers: number[]; window: number | null; sinks: number; kept: number[]; block: number };
  slot: { slot: number; block: number; size: number; offset: number; position: number | null };
  block: {
    block: number;
    ref_count: number;
    hash: Uint8Array | null;
    filled: number;
    size: number;
    place: number | null;
  };
  table: { seq: number; logical: number; block: number; held: boolean; from: number; to: number };
  owners: { owners: Owner[]; ref_count: number; block: number };
  loaded: Token & Omit<Loaded, "record">; // from outside the pool
  /** Received from another instance over `link`; `src`: its block there, null if the log does not contain it. */
  moved: Token & { bytes: number; link: string; seconds: number; src: number | null; from: string; to: string };
  /** `instance`: the sequence's; "" if the log has only one. */
  written: Token & { holds: boolean; copied: boolean; instance: string };
  decision: {
    seq: number;
    request_id: string;
    logical: number;
    block: number;
    why: string;
    parts: MessageKey[];
    evicted: Uint8Array | null;
    go: number;
  };
  cached: { hash: Uint8Array; parent: Uint8Array | null; seq: number };
  freed: { seq: number; to: "front" | "back" | null; type: Op["type"]; why: string };
  evicted: { hash: Uint8Array; block: number };
  earlier: { seq: number; block: number };
  life: { events: LifeEvent[] };
  bytes: KvTerms & { slots: number; per_layer: number; bytes: number };
  state: { states: number; each: number; bytes: number };
  operation: { op: Op; at: number; of: number; entry: Entry | null; blocks: number[]; seq?: number; go: number };
  given: { seq: number; type: Op["type"]; why: string };
  request: { seq: number; request_id: string; num_prompt_tokens: number; max_tokens: number };
  sequence: { seq: number; status: Status; num_tokens: number; num_computed_tokens: number };
  lookup: Omit<Lookup, "type">;
  outside: { parts: MessageKey[]; verdict: LookupExternal["verdict"] };
  blocks: { seq: number; blocks: number[]; shared: number[] };
  figure: {
    name: Exclude<FigureName, "contiguous" | "token">;
    slots: number;
    per_token: number;
    bytes: number;
    terms: FigureTerm[];
    blocks: number[];
    blocks_held: number;
    blocks_cached: number;
    blocks_free: number;
    block_size: number;
  };
  part: { seq: number; slots: number; per_token: number; bytes: number; num_blocks: number; of_states: boolean };
  contiguous: Counterfactual & { per_token: number; groups: number };
}

export type LinkKind = keyof Kinds;
export type LinkOf<K extends LinkKind> = { kind: K } & Common & Kinds[K];
export type Link = { [K in LinkKind]: LinkOf<K> }[LinkKind];

export interface Chain {
  kind: "weight" | "key" | "slot" | "block" | "sequence" | "decision" | "figure";
  links: Link[];
}
