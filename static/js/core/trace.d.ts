// Written by `python -m tools.trace_schema` from the types of engine/trace: the records of a trace in the page.

import type { NdArray } from "./ndarray.js";

export interface Adjust {
  request_id: string;
  seq_ids: number[];
  max_tokens: number;
  sampling: Record<string, string | number | boolean | null | (string | number)[] | Record<string, number>>;
}

export interface Admit {
  seq_id: number;
  num_cached_tokens: number;
  resumed: boolean;
  num_swapped_tokens?: number;
  num_external_tokens?: number;
}

export interface Allocate {
  seq_id: number;
  block_id: number;
  logical: number;
  reason?: 
    | "admission"
    | "append"
    | "chunk"
    | "copy"
    | "draft"
    | "load"
    | "receive"
    | "recompute"
    | "resume"
    | "swap_in" | null;
}

export interface Arrive {
  seq_id: number;
  transfer: string;
  queue_position: number;
  num_tokens: number;
  num_bytes: number;
  link: string;
  began: number;
  ended: number;
}

export interface AttentionRows {
  seq_id: number;
  query_start: number;
  key_start: number;
  heads: number[];
  weights: NdArray;
}

export interface Await {
  seq_id: number;
  transfer: string;
  num_cached_tokens: number;
  num_tokens: number;
}

export interface BatchEntry {
  seq_id: number;
  phase: "decode" | "prefill";
  start: number;
  token_ids: number[];
  context_len: number;
  samples: boolean;
}

export interface BlockGroup {
  layers: number[];
  first_block: number;
  num_blocks: number;
  kv_bytes_per_token: number;
  instance?: number;
  window?: number | null;
  sinks?: number;
  state_bytes?: number;
  checkpoint?: number;
}

export interface Cache {
  seq_id: number;
  block_id: number;
  logical: number;
  block_hash: Uint8Array;
  parent_hash: Uint8Array | null;
  token_ids: number[];
}

export interface CacheTensors {
  copied_bytes: number;
  num_copied: number;
  storage_bytes: number;
}

export interface Candidate {
  token_id: number;
  token_bytes: Uint8Array;
  logprob: number;
}

export interface Capture {
  index: number;
  dtype: string;
  layers: LayerCapture[];
  omitted?: string;
  scores?: KeyScores[];
}

export interface Choose {
  seq_id: number;
  position: number;
  token_id: number;
  token_bytes: Uint8Array;
}

export interface Copy {
  seq_id: number;
  logical: number;
  src: number;
  dst: number;
}

export interface Defer {
  seq_id: number;
  reason: 
    | "fragmented"
    | "max_num_seqs"
    | "no_free_blocks"
    | "step_preempted"
    | "token_budget";
  needed: number;
  available: number;
  num_free?: number | null;
}

export interface Discard {
  seq_id: number;
}

export interface Draft {
  seq_id: number;
  token_ids: number[];
  token_bytes: Uint8Array[];
  method: "draft_model" | "ngram";
  match_start?: number | null;
  match_length?: number;
  num_computed_tokens?: number;
  num_bytes?: number;
}

export interface Drop {
  seq_id: number;
  cpu_block_id: number;
}

export interface Evict {
  block_id: number;
  block_hash: Uint8Array;
  seq_id?: number | null;
  lifetime_steps?: number;
  idle_steps?: number;
  num_hits?: number;
  reuse_gap_steps?: number[];
}

export interface Expire {
  seq_id: number;
  transfer: string;
}

export interface Finish {
  seq_id: number;
  reason: "abort" | "dropped" | "length" | "stop";
  detail?: string;
}

export interface Forget {
  seq_id: number;
  layer: number;
  at: number;
  positions: number[][];
  scores: number[][];
  ranks: number[][];
  lowest_kept: (number | null)[];
}

export interface Fork {
  parent_seq_id: number;
  seq_id: number;
  request_id: string;
  reason?: "beam" | "sample";
  seed?: number | null;
}

export interface Free {
  seq_id: number;
  block_id: number;
  to: "back" | "front" | null;
  reason?: 
    | "discard"
    | "expired"
    | "finish"
    | "preempt"
    | "sent"
    | "swap"
    | "take_back"
    | "transfer_failed" | null;
}

export interface FullCacheOutput {
  divergence: number;
  token_id: number;
  token_bytes: Uint8Array;
  own_token_id: number;
  logprob: number;
}

export interface HeadPattern {
  pattern: string;
  layer: number;
  head: number;
  mean_weight: number;
  uniform: number;
  queries: number;
}

export interface Header {
  generator: string;
  created: string;
  model: ModelFacts;
  tokenizer: TokenizerFacts;
  engine: Record<string, string | number | boolean | null>;
  kv_bytes_per_token: number;
  machine: Machine;
  format?: string;
  version?: number;
  block_groups?: BlockGroup[];
  instances?: InstanceFacts[];
  simulated?: Simulated | null;
  observed?: Observed | null;
  watched?: Watched | null;
  finished_kept?: number | null;
}

export interface Hold {
  seq_id: number;
  transfer: string;
  num_tokens: number;
  lease: number;
}

export interface InstanceFacts {
  name: string;
  role: "decode" | "mixed" | "prefill";
  num_threads?: number;
}

export interface Keep {
  seq_id: number;
  position: number;
}

export interface KeyScores {
  seq_id: number;
  layer: number;
  scores: NdArray;
}

export interface KnownSince {
  epoch: number;
  sequence: number;
  reason: "attached" | "cleared" | "continued" | "gap" | "restarted";
  num_missed?: number;
}

export interface LayerCapture {
  layer: number;
  q: NdArray;
  k: NdArray;
  v: NdArray;
  rows: AttentionRows[];
  out?: NdArray | null;
}

export interface Load {
  seq_id: number;
  logical: number;
  block_id: number;
  block_hash: Uint8Array;
  medium: "cpu" | "disk";
  num_bytes: number;
}

export interface Lookup {
  seq_id: number;
  verdict: "disabled" | "hit" | "miss" | "skipped" | "too_short";
  num_tokens: number;
  num_hit_tokens: number;
  block_ids: number[];
  reason?: 
    | "differs"
    | "earlier_ended"
    | "evicted"
    | "forgotten"
    | "no_state"
    | "not_computed"
    | "nothing_shared"
    | "other_ablation"
    | "other_salt"
    | "shared_too_short" | null;
  closest_seq_id?: number | null;
  num_shared_tokens?: number;
  lost_block_id?: number | null;
  evicted_in?: number | null;
  evicted_for?: number | null;
}

export interface LookupExternal {
  seq_id: number;
  verdict: "compute" | "load" | "miss";
  num_tokens: number;
  num_found_tokens: number;
  media?: ("cpu" | "disk")[];
  num_bytes?: number;
  load_seconds?: number | null;
  compute_seconds?: number | null;
}

export interface Lost {
  detail?: string;
  given_up?: number[];
}

export interface Machine {
  device: string;
  processor: string;
  num_threads: number;
  versions: Record<string, string>;
  roofs?: Roofs | null;
}

export interface Memory {
  num_blocks: number;
  block_size: number;
  blocks_held: number;
  blocks_cached: number;
  blocks_free: number;
  tokens_held: number;
  tokens_logical: number;
  bytes_held: number;
  bytes_used: number;
  bytes_cached: number;
  swap_blocks?: number;
  swap_blocks_held?: number;
  state_blocks_held?: number;
}

export interface ModelFacts {
  name: string;
  architecture: string;
  num_params: number;
  num_layers: number;
  hidden_size: number;
  intermediate_size: number;
  num_heads: number;
  num_kv_heads: number;
  head_dim: number;
  v_head_dim: number;
  vocab_size: number;
  max_position: number;
  dtype: string;
  sliding_windows: (number | null)[];
  scalings?: number[];
  softcaps?: (number | null)[];
  sinks?: (number[] | null)[];
  tie_word_embeddings?: boolean;
  num_active_params?: number | null;
  num_experts?: number;
  num_experts_per_tok?: number;
  bytes_per_weight?: number | null;
  rounded_to?: string | null;
  layer_kinds?: ("both" | "keys" | "nothing" | "state")[];
  state_bytes?: number;
  latent_dim?: number;
  rope_dim?: number;
  layer_shapes?: number[][];
  heads?: HeadPattern[];
}

export interface Objection {
  text: string;
  rule?: string;
  seq_id?: number | null;
  block_id?: number | null;
  said?: number | null;
  counted?: number | null;
}

export interface Observed {
  source: string;
  unknown: (
    | "arrays"
    | "before"
    | "copies"
    | "ids"
    | "model"
    | "partial_blocks"
    | "preemptions"
    | "ref_counts"
    | "requests"
    | "steps"
    | "texts")[];
  events?: string[];
}

export interface Output {
  seq_id: number;
  token_id: number;
  token_bytes: Uint8Array;
  text: string;
  logprob: number;
  top: Candidate[];
  full?: FullCacheOutput | null;
}

export interface Preempt {
  seq_id: number;
  queue_position: number;
  mode: "recompute" | "swap";
  for_seq_id: number;
  num_computed_tokens: number;
  reason?: "deadlock" | "last_admitted" | "worst_priority";
  num_blocks?: number;
  num_kept_tokens?: number;
  num_recompute_tokens?: number;
  num_bytes?: number;
  swap_refused?: boolean;
}

export interface PromptLogprob {
  seq_id: number;
  position: number;
  token_id: number;
  logprob: number;
  top: Candidate[];
}

export interface Rank {
  request_id: string;
  seq_ids: number[];
  scores: number[];
  num_returned: number;
}

export interface Receive {
  seq_id: number;
  logical: number;
  block_id: number;
  from_block_id: number;
  num_tokens: number;
  num_bytes: number;
}

export interface Release {
  seq_id: number;
  block_id: number;
  logical: number;
  reason: "forgotten" | "policy" | "state" | "window";
  to: "back" | "front" | null;
}

export interface Removed {
  place: number;
  medium: string;
  block_hash: Uint8Array;
  outside?: boolean;
  group?: number | null;
  tier?: string | null;
  num_left?: number;
}

export interface Requeue {
  block_ids: number[];
}

export interface Reserve {
  seq_id: number;
  block_id: number;
  num_blocks: number;
  hole_blocks: number;
}

export interface Roofs {
  dtype: string;
  num_threads: number;
  measured_at: string;
  flops_per_second: number;
  matmul_size: number;
  matmul_runs: number;
  bytes_per_second: number;
  copy_bytes: number;
  copy_runs: number;
}

export interface Sample {
  seq_id: number;
  token_id: number;
  sampled_token_id?: number | null;
}

export interface Seen {
  sequence?: number | null;
  published?: number | null;
  replayed?: boolean;
  num_unmatched?: number;
  num_unread?: number;
  metrics?: Record<string, number>;
  problem?: string;
}

export interface Send {
  seq_id: number;
  transfer: string;
  block_ids: number[];
  num_bytes: number;
}

export interface Share {
  seq_id: number;
  block_id: number;
  logical: number;
  revived: boolean;
}

export interface Simulated {
  cost: string;
  seed?: number;
}

export interface StepRecord {
  index: number;
  kind: "abort" | "adjust" | "lost" | "observed" | "step" | "submit" | "transfer";
  step: number;
  timing: Timing;
  memory: Memory;
  instance?: number;
  batch?: BatchEntry[];
  ops?: Op[];
  outputs?: Output[];
  prompt_logprobs?: PromptLogprob[];
  work?: Work | null;
  cache_tensors?: CacheTensors | null;
  tiers?: TierFigures[];
  seen?: Seen | null;
  has_capture?: boolean;
  integrity?: Objection[] | string;
}

export interface Store {
  block_id: number;
  block_hash: Uint8Array;
  medium: "cpu" | "disk";
  num_bytes: number;
}

export interface Stored {
  place: number;
  medium: string;
  block_hash: Uint8Array;
  parent_hash: Uint8Array | null;
  token_ids: number[];
  outside?: boolean;
  parent_unsaid?: boolean;
  group?: number | null;
  kind?: string | null;
  window?: number | null;
  lora_name?: string | null;
  extra_keys?: string | null;
  locality?: string | null;
  tier?: string | null;
  again?: boolean;
}

export interface Submit {
  seq_id: number;
  queue_position: number;
  request_id: string;
  prompt_token_ids: number[];
  prompt_token_bytes: Uint8Array[];
  max_tokens: number;
  priority?: number;
  cache_salt?: string | null;
  sampling?: Record<string, string | number | boolean | null | (string | number)[] | Record<string, number>>;
  client?: string | null;
  waited?: number;
  transfer?: string | null;
  kv_role?: "kv_consumer" | "kv_producer" | null;
}

export interface SwapIn {
  seq_id: number;
  logical: number;
  block_id: number;
  cpu_block_id: number;
  num_bytes: number;
}

export interface SwapOut {
  seq_id: number;
  logical: number;
  block_id: number;
  cpu_block_id: number;
  num_bytes: number;
}

export interface TakeBack {
  seq_id: number;
  start: number;
  num_tokens: number;
}

export interface TierFigures {
  medium: "cpu" | "disk";
  num_blocks: number;
  num_bytes: number;
  max_bytes: number;
  num_dropped?: number;
  last_drop?: string;
}

export interface Timing {
  at: number;
  schedule?: number;
  draft?: number;
  prepare?: number;
  forward?: number;
  sample?: number;
  transfer?: number;
  tokenize?: number;
  detokenize?: number;
  compiled?: boolean;
  threads?: number;
}

export interface TokenizerFacts {
  name: string;
  vocab_size: number;
  eos_token_ids: number[];
}

export interface TransferFailed {
  seq_id: number;
  transfer: string;
  queue_position: number;
  reason: 
    | "consumed"
    | "expired"
    | "gone"
    | "late"
    | "lost"
    | "no_room"
    | "other_layout"
    | "other_text"
    | "out_of_range"
    | "stale"
    | "step_failed"
    | "unknown";
  detail?: string;
}

export interface Verify {
  seq_id: number;
  num_drafted: number;
  num_accepted: number;
}

export interface Watched {
  source: string;
  unknown: ("arrays" | "logprobs" | "num_params" | "texts" | "work")[];
  first_block_id?: number;
}

export interface Work {
  num_tokens: number;
  flops: number;
  weight_bytes: number;
  kv_read_bytes: number;
  kv_write_bytes: number;
}

export interface Write {
  seq_id: number;
  start: number;
  num_tokens: number;
}

export type Op =
  | (Submit & { type: "submit" })
  | (Lookup & { type: "lookup" })
  | (LookupExternal & { type: "lookup_external" })
  | (Admit & { type: "admit" })
  | (Defer & { type: "defer" })
  | (Reserve & { type: "reserve" })
  | (Requeue & { type: "requeue" })
  | (Allocate & { type: "allocate" })
  | (Evict & { type: "evict" })
  | (Share & { type: "share" })
  | (Fork & { type: "fork" })
  | (Copy & { type: "copy" })
  | (Cache & { type: "cache" })
  | (Write & { type: "write" })
  | (Sample & { type: "sample" })
  | (Draft & { type: "draft" })
  | (Verify & { type: "verify" })
  | (TakeBack & { type: "take_back" })
  | (Choose & { type: "choose" })
  | (Adjust & { type: "adjust" })
  | (SwapOut & { type: "swap_out" })
  | (SwapIn & { type: "swap_in" })
  | (Load & { type: "load" })
  | (Store & { type: "store" })
  | (Await & { type: "await" })
  | (Receive & { type: "receive" })
  | (Arrive & { type: "arrive" })
  | (TransferFailed & { type: "transfer_failed" })
  | (Hold & { type: "hold" })
  | (Send & { type: "send" })
  | (Expire & { type: "expire" })
  | (Lost & { type: "lost" })
  | (Preempt & { type: "preempt" })
  | (Discard & { type: "discard" })
  | (Drop & { type: "drop" })
  | (Free & { type: "free" })
  | (Release & { type: "release" })
  | (Forget & { type: "forget" })
  | (Keep & { type: "keep" })
  | (Finish & { type: "finish" })
  | (Rank & { type: "rank" })
  | (Stored & { type: "stored" })
  | (Removed & { type: "removed" })
  | (KnownSince & { type: "known_since" });
