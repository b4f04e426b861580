// Written by `python -m tools.wire_types` from the server's types: messages, acknowledgements and answers.

import type { BenchAnswer, RunStatus } from "./bench.js";
import type { NdArray } from "./ndarray.js";
import type { Candidate, Machine, ModelFacts, Objection, Op, TokenizerFacts } from "./trace.js";

export interface AbortMessage {
  theater: string;
  request_id: string;
}

export interface Aborted {
  num_records: number;
}

export interface Action {
  verb: "fork" | "lose" | "prefill" | "race" | "restart" | "run" | "step" | "submit";
  prompts: number[];
  after: number;
  count: number;
  until: string;
  rank: number;
  keep: Record<string, number>;
  lanes: string;
  changes: Record<string, unknown>;
}

export interface ApiStatus {
  active: number;
  waiting: Record<string, number>;
}

export interface AskItem {
  kind: "ask";
  index: number;
  section: number;
  rule: string;
  values: Record<string, string | number>;
  options: AskOption[];
  given: (number | null)[];
  whys: (string | null)[];
  over: boolean;
  right: number | null;
  evidence: Evidence | null;
  of: number | null;
  again: string | null;
}

export interface AskOption {
  text: string;
  values: Record<string, string | number>;
  number: number | null;
  place: AtBlock | AtSlot | AtTokens | AtRequest | AtStep | AtBytes | null;
}

export interface AtBlock {
  kind: "block";
  block: number;
}

export interface AtBytes {
  kind: "bytes";
  bytes: number;
}

export interface AtRequest {
  kind: "request";
  seq: number;
}

export interface AtSlot {
  kind: "slot";
  block: number;
  offset: number;
}

export interface AtStep {
  kind: "step";
  step: number;
}

export interface AtTokens {
  kind: "tokens";
  seq: number;
  first: number;
  count: number;
}

export interface Begun {
  epoch: number;
  header: Uint8Array;
}

export interface BenchRun {
  scenario: string;
  rounds?: number | null;
  quiet_seconds?: number;
}

export interface BlockMove {
  kind: "allocate" | "copy" | "evict" | "free" | "share";
  block: number;
  seq: number | null;
  source: number | null;
}

export interface Card {
  id: string;
  kind: "after" | "before" | "lesson";
  number: number;
  minutes: number;
  model: string;
  title: Record<string, string>;
  num_questions: number;
  refused: string | null;
  recorded: boolean;
}

export interface ClassAnswer {
  poll: number;
  round: number;
  given: number | string | null;
}

export interface ClassAsk {
  id: string;
  kind: "choice" | "lesson" | "number" | "slot" | "token";
  text?: string;
  options?: string[];
  seconds?: number | null;
}

export interface ClassCast {
  id: string;
  theater: string | null;
  view: Record<string, string>;
}

export interface ClassClock {
  id: string;
  poll: number;
  seconds: number | null;
}

export interface ClassDesk {
  answered: number;
  asked: number;
  id: string;
  kept_until: string | null;
  labs: number;
  labs_most: number;
  labs_why: LabsWhy;
  lost: number[][];
  open: boolean;
  origins: OriginCount[];
  seats: SeatState[];
  seconds: number;
  tallies: Tally[];
  waiting: number;
}

export interface ClassDoors {
  id: string;
  open: boolean;
}

export interface ClassEnter {
  language: string;
}

export interface ClassEntered {
  guest: boolean;
  mine: Mine;
  state: ClassState;
}

export interface ClassHand {
  id: string;
  seat: number | null;
}

export interface ClassHold {
  id: string;
  held: boolean;
}

export interface ClassKeep {
  id: string;
  until: string;
}

export interface ClassLab {
  open: boolean;
}

export interface ClassLabs {
  id: string;
  open: boolean;
}

export interface ClassLeft {
  id: string;
}

export interface ClassLesson {
  id: string;
  lesson: string;
}

export interface ClassLost {
  lost: boolean;
}

export interface ClassOpen {
  base: string;
  title?: string;
  names?: "none" | "optional";
}

export interface ClassOpened {
  presenting: Presenting;
  secret: string;
}

export interface ClassPoll {
  id: string;
  poll: number;
  to: "again" | "closed" | "open" | "shown" | "talk";
  right?: number | string | null;
}

export interface ClassPresent {
  id: string;
  base: string;
  secret: string;
}

export interface ClassPress {
  id: string;
  key: "back" | "next";
}

export interface ClassPressed {
  id: string;
  key: "back" | "next" | null;
  lesson: string | null;
}

export interface ClassRemote {
  id: string;
  seat: number;
  allowed: boolean;
}

export interface ClassRename {
  name: string;
}

export interface ClassSendAway {
  id: string;
  seat: number;
}

export interface ClassState {
  driver: number | null;
  driver_name: string | null;
  held: boolean;
  id: string;
  labs: boolean;
  lesson: LessonAt | null;
  names: "none" | "optional";
  over: boolean;
  poll: PollState | null;
  theater: string | null;
  title: string;
  version: number;
  view: Record<string, string>;
}

export interface ClassWish {
  wish: "drive" | "remote" | null;
}

export interface Closed {
  cause: "deleted" | "displaced" | "grown" | "lab_idle" | "lab_over" | "mistake" | "over" | "shutdown" | "unbuilt" | "unloaded" | "unused";
  detail: string;
  reason: string;
  theater: string;
}

export interface ComparedRun {
  epoch: number;
  num_records: number;
  status: Status;
  theater: string;
}

export interface Comparison {
  same_model: boolean;
  same_machine: boolean;
  settings: SettingDifference[];
  first_op: OpDifference | null;
  first_token: TokenDifference | null;
  sequences: SequencePair[];
  a: RunFigures;
  b: RunFigures;
  unsaid: Unsaid;
}

export interface ConfigureMessage {
  theater: string;
  config: Record<string, unknown>;
  model?: string | null;
}

export interface Control {
  group: "cache" | "instances" | "sampling" | "scheduler";
  usual?: number[];
  step?: number;
  offered?: string[];
  initial?: unknown;
  none_as?: number | string | null;
  term?: string | null;
  only_with?: string | null;
}

export interface Counted {
  value: number | string | null;
  count: number;
}

export interface Create {
  config?: Record<string, unknown>;
  model?: string | null;
  name?: string;
  captures?: boolean;
  alone?: boolean;
}

export interface DeviceFacts {
  name: string;
  has_own_memory: boolean;
  total_bytes: number;
  free_bytes: number;
  process_bytes: number;
  clock_mhz: number | null;
  power_watts: number | null;
}

export interface DeviceMemory {
  facts: DeviceFacts;
  logs_bytes: number;
  pools_bytes: number;
  weights_bytes: number;
}

export interface DoItem {
  kind: "do";
  index: number;
  section: number;
  action: Action;
  moment: Moment | null;
  race: RaceSetup | null;
}

export interface Done {
  deed: BlockMove;
  record: number;
  op: number;
}

export interface Door {
  path: string;
  shown: string;
  size: number;
  url: string;
}

export interface Earlier {
  lesson: string;
  item: number;
}

export interface EngineConfig {
  strategy: "concat" | "contiguous" | "dynamic" | "first_fit" | "none" | "paged" | "static";
  block_size: number;
  mamba_block_size: number | null;
  num_blocks: number | null;
  gpu_memory_utilization: number;
  max_model_len: number | null;
  max_num_seqs: number;
  max_num_batched_tokens: number;
  enable_prefix_caching: boolean;
  enable_chunked_prefill: boolean;
  scheduler_reserve_full_isl: boolean;
  scheduling_policy: "fcfs" | "priority";
  preemption_mode: "recompute" | "swap";
  swap_space: number | null;
  kv_cache_dtype: "auto" | "bfloat16" | "float16" | "float32" | "fp8" | "fp8_e4m3" | "int4" | "int8";
  attention_window: number | null;
  attention_sinks: number | null;
  sliding_window_pattern: number | null;
  forget_policy: "expected_attention" | "h2o" | "key_norm" | "random" | "snapkv" | "tova" | "window" | null;
  forget_budget: number | null;
  forget_sinks: number | null;
  forget_recent: number | null;
  forget_every: number | null;
  forget_pool: number | null;
  forget_compare: boolean | null;
  prefill: number;
  decode: number;
  mixed: number;
  instances: "process" | "ray" | "thread";
  routing_policy: "least_loaded" | "longest_prefix" | "round_robin";
  ttft_slo: number | null;
  kv_load_failure_policy: "fail" | "recompute";
  link_mb_per_second: number | null;
  speculative_config: string | null;
  enforce_eager: boolean;
  max_cudagraph_capture_size: number;
  async_scheduling: boolean;
  count_copies: boolean;
  private: boolean;
  fault: "missing_causal_mask" | "no_copy_at_shared_write" | "output_lost_at_preemption" | "read_after_release" | "rope_restarted_at_chunk" | "slot_off_by_one" | "stale_hash_after_reallocation" | null;
  ablate: string | null;
  num_logprobs: number;
  seed: number;
}

export interface Entry {
  id: string;
  source: "file" | "library" | "shipped";
  name: string;
  title: Record<string, string> | null;
  text: Record<string, string> | null;
  command: string | null;
  tags: string[];
  notes: string;
  added: string;
  ended: "closed" | "imported" | "interrupted" | "reset" | "stopped" | "write_failed" | null;
  ended_detail: string;
  recording: boolean;
  summary: Summary;
}

export interface Evidence {
  record: number;
  op: number | null;
  figure: string;
}

export interface Exhibit {
  id: "missing_causal_mask" | "no_copy_at_shared_write" | "output_lost_at_preemption" | "read_after_release" | "rope_restarted_at_chunk" | "slot_off_by_one" | "stale_hash_after_reallocation";
  sampling: Record<string, unknown>;
  config: Record<string, unknown>;
}

export interface Finding {
  kind: "adopted" | "damaged" | "folder_gone" | "index_rebuilt" | "index_unavailable" | "interrupted" | "missing" | "not_a_trace" | "upload_removed";
  recording: string | null;
  message: string;
}

export interface FocusMessage {
  theater: string;
  layers: number[] | null;
  heads: number[] | null;
}

export interface ForkAblate {
  kind: "ablate";
  layer: number;
  head: number | null;
}

export interface ForkAbort {
  kind: "abort";
  request_id: string;
}

export interface ForkConfig {
  kind: "config";
  config: Record<string, unknown>;
}

export interface ForkKeep {
  kind: "keep";
  seq_id: number;
  position: number;
}

export interface ForkMessage {
  theater: string;
  at: number;
  change: ForkToken | ForkKeep | ForkAblate | ForkRequest | ForkAbort | ForkSampling | ForkConfig | null;
  epoch?: number | null;
  follow?: boolean;
  name?: string;
}

export interface ForkRequest {
  kind: "request";
  text: string;
  sampling?: Record<string, unknown>;
  request_id?: string | null;
  priority?: number;
  cache_salt?: string | null;
}

export interface ForkSampling {
  kind: "sampling";
  request_id: string;
  sampling: Record<string, unknown>;
}

export interface ForkSource {
  at: number;
  epoch: number;
  theater: string;
}

export interface ForkStatus {
  active: boolean;
  at: number;
  change: string | null;
  epoch: number;
  expected: number;
  forked: boolean;
  left_out: string[];
  source: string;
}

export interface ForkToken {
  kind: "token";
  seq_id: number;
  token_id: number;
}

export interface Forked {
  epoch: number;
  header: Uint8Array;
  num_records: number;
  source: ForkSource;
  status: Status;
  theater: string;
}

export interface GradedList {
  moves: BlockMove[];
  verdicts: Verdict[];
  missing: number;
  right: boolean;
}

export interface JoinMessage {
  theater: string;
  from?: number;
  epoch?: number | null;
  captures?: boolean;
  windows?: boolean;
}

export interface Joined {
  epoch: number;
  from: number;
  header: Uint8Array;
  large: boolean;
  num_records: number;
  status: Status;
  theater: string;
}

export interface LabsWhy {
  by: "memory" | "most" | "speed" | "stage" | "unmeasured";
  free_bytes: number;
  lab_bytes: number;
  step_seconds: number | null;
}

export interface Large {
  epoch: number;
  num_records: number;
  theater: string;
}

export interface LessonAnswerMessage {
  theater: string;
  item: number;
  given: number | BlockMove[] | Mending | null;
}

export interface LessonAt {
  at: number;
  theater: string;
  version: number;
}

export interface LessonFault {
  file: string;
  line: number;
  sentence: string;
}

export interface LessonGoMessage {
  theater: string;
  item: number;
}

export interface LessonLookMessage {
  theater: string;
  language: string;
  since?: number;
}

export interface LessonOpen {
  lesson: string;
  language: string;
  theater?: string | null;
  at?: number;
  answers?: Record<string, (number | BlockMove[] | Mending | null)[]>;
  changes?: Record<string, unknown>;
  again?: Earlier[];
}

export interface LessonOpened {
  first: number;
  items: (TextItem | ShowItem | DoItem | AskItem | WorkItem | MendItem | SandboxItem)[];
  kind: "after" | "before" | "lesson";
  language: string;
  lesson: string;
  minutes: number;
  progress: Progress;
  theater: string;
  title: string;
  words: Record<string, string>;
}

export interface LessonReplayed {
  captures: (Uint8Array | null)[];
  first: number;
  first_record: number;
  header: Uint8Array;
  items: (TextItem | ShowItem | DoItem | AskItem | WorkItem | MendItem | SandboxItem)[];
  kind: "after" | "before" | "lesson";
  language: string;
  lesson: string;
  minutes: number;
  num_records: number;
  progress: Progress;
  records: Uint8Array[];
  run: number;
  theater: string;
  title: string;
  words: Record<string, string>;
}

export interface LessonRetell {
  lesson: string;
  language: string;
  at?: number;
  answers?: Record<string, (number | BlockMove[] | Mending | null)[]>;
  since?: number;
  run?: number | null;
  first?: number;
}

export interface LessonState {
  first: number;
  items: (TextItem | ShowItem | DoItem | AskItem | WorkItem | MendItem | SandboxItem)[];
  progress: Progress;
  theater: string;
}

export interface LessonsAnswer {
  faults: LessonFault[];
  lessons: Card[];
}

export interface Limits {
  max_pool_bytes: number;
  max_prompt_bytes: number;
  max_prompts: number;
  max_theaters: number;
}

export interface ListedModel {
  kv_bytes_per_token: number | null;
  model: ModelFacts | null;
  status: ModelStatus;
  theaters: number;
}

export interface ListedSession {
  config: EngineConfig;
  is_lab: boolean;
  model: string;
  name: string;
  status: Status;
  summary: Summary;
  theater: string;
}

export interface MendItem {
  kind: "mend";
  index: number;
  section: number;
  movable: string[];
  block_size: number;
  before: TurnRun[];
  given: (Mended | null)[];
  over: boolean;
  right: Mended | null;
  moment: Moment | null;
}

export interface Mended {
  moves: Move[];
  turns: TurnRun[];
  right: boolean;
}

export interface Mending {
  moves: Move[];
}

export interface Message {
}

export interface Mine {
  answers: OwnAnswer[];
  drives: boolean;
  lab: string | null;
  lost: boolean;
  name: string;
  queue: number | null;
  remote: boolean;
  seat: number;
  wish: "drive" | "remote" | null;
}

export interface ModelAnswer {
  api: string | null;
  attached: string | null;
  config: EngineConfig;
  kv_bytes_per_token: number | null;
  limits: Limits;
  live: boolean;
  machine: Machine | null;
  model: ModelFacts | null;
  museum: (Exhibit & { title: Record<string, string>; text: Record<string, string>; watch: Record<string, string>; prompts: Record<string, string[]>; })[];
  options: OptionsPayload;
  presets: (Preset & { title: Record<string, string>; watch: Record<string, string>; end: Record<string, string>; prompts: Record<string, string[]>; })[];
  sampling: SamplingParams;
  tokenizer: TokenizerFacts | null;
  version: string;
}

export interface ModelStatus {
  bytes: number;
  compiled: "done" | "failed" | "off" | "under_way";
  error: string;
  name: string;
  place: "at_hand" | "first" | "named";
  said: Record<string, string>;
  seconds: number;
  stage: "check" | "torch" | "vocabulary" | "weights" | null;
  stages: ("check" | "torch" | "vocabulary" | "weights")[];
  state: "failed" | "loading" | "none" | "ready" | "unloaded";
}

export interface ModelsAnswer {
  bytes: number;
  device: DeviceMemory | null;
  max_bytes: number;
  models: ListedModel[];
}

export interface Moment {
  run: number;
  records: number;
}

export interface Move {
  part: string;
  before: string | null;
}

export interface Nothing {
}

export interface OfClass {
  id: string;
}

export interface OfSessionMessage {
  theater: string;
}

export interface OpDifference {
  record: number;
  op: number;
  a: Op | null;
  b: Op | null;
  kind_a: string | null;
  kind_b: string | null;
  step_a: number | null;
  step_b: number | null;
}

export interface OptionFacts {
  name: string;
  kind: string;
  default: unknown;
  optional?: boolean;
  choices?: string[];
  ge?: number | null;
  gt?: number | null;
  le?: number | null;
  strategies?: string[] | null;
  derived_under?: string[];
  beside?: string | null;
  may_change?: boolean;
  control?: Control | null;
}

export interface OptionWords {
  label: string;
  help: string;
  none?: string;
  number?: string;
  values?: Record<string, string>;
  values_help?: Record<string, string>;
}

export interface OptionsPayload {
  tables: Record<string, OptionFacts[]>;
  words: Record<string, Record<string, OptionWords>>;
}

export interface OriginCount {
  here: number;
  origin: string;
  seats: number;
}

export interface OwnAnswer {
  given: (number | string | null)[];
  has: boolean[];
  item: number | null;
  poll: number;
  theater: string | null;
}

export interface Performed {
  num_records: number;
  performed: number;
}

export interface PlayMessage {
  theater: string;
  speed: number;
}

export interface Point {
  record: number;
  step: number;
  blocks_held: number;
  bytes_held: number;
  seconds: number;
}

export interface PollState {
  id: number;
  kind: "choice" | "lesson" | "number" | "slot" | "token";
  text: string;
  options: string[];
  theater: string | null;
  item: number | null;
  phase: "again" | "closed" | "open" | "shown" | "talk";
  round: number;
  seconds: number | null;
  left: number | null;
  tallies: Tally[];
  right: number | string | null;
}

export interface PrefillMessage {
  theater: string;
  expect?: number | null;
}

export interface Presenting {
  code: string;
  desk: ClassDesk;
  doors: Door[];
  join: string;
  state: ClassState;
}

export interface Preset {
  id: string;
  after_steps: number[];
  sampling: Record<string, unknown>;
  config: Record<string, unknown>;
  model: string | null;
  seq: number | null;
  pattern: string | null;
  detail: "attention" | "scheduler" | "time";
  speed: number;
}

export interface Progress {
  at: number;
  num_items: number;
  num_sections: number;
  over: boolean;
  num_optional: number;
  asks: string[];
}

export interface ProjectMessage {
  theater: string;
  layer: number;
  part: "k" | "q" | "v";
  head: number;
}

export interface Projected {
  projection: Uint8Array;
}

export interface Projection {
  weight: NdArray;
  bias: NdArray;
}

export interface RaceSetup {
  lanes: string;
  prompt: string;
  config: Record<string, unknown>;
  sampling: Record<string, unknown>;
  model: string;
}

export interface ReadMessage {
  theater: string;
  from: number;
  to: number;
  captures?: boolean;
}

export interface RecomputeMessage {
  theater: string;
  seq_id: number;
  layer: number | null;
  heads?: number[] | null;
  num_tokens?: number | null;
  residual?: number;
}

export interface Recomputed {
  arrays: Uint8Array | Uint8Array[];
  epoch: number;
  residual?: ResidualAnswer;
  token_ids: number[];
}

export interface RecordMessage {
  theater: string;
  name?: string;
  tags?: string[];
}

export interface RecordRange {
  captures: (Uint8Array | null)[];
  epoch: number;
  first: number;
  records: Uint8Array[];
}

export interface RecordingStatus {
  ended: "closed" | "imported" | "interrupted" | "reset" | "stopped" | "write_failed" | null;
  ended_detail: string;
  id: string;
  name: string;
}

export interface RecordingsAnswer {
  can_keep: boolean;
  exports: Record<string, string | null>;
  findings: Finding[];
  max_bytes: number;
  recordings: Entry[];
}

export interface Records {
  captures: (Uint8Array | null)[];
  epoch: number;
  first: number;
  records: Uint8Array[];
  theater: string;
}

export interface Reset {
  epoch: number;
  header: Uint8Array;
  num_records: number;
  theater: string;
}

export interface ResidualAnswer {
  attention_flops: number;
  linear_flops: number;
  stream: Uint8Array;
}

export interface ResidualStream {
  position: number;
  layer: number;
  is_parallel: boolean;
  vectors: Record<string, NdArray>;
  norms: NdArray;
  lens: Candidate[][];
  layer_lens: Candidate[][];
  missing: ("apart" | "experts" | "head" | "logits" | "matrices")[];
}

export interface RunFigures {
  totals: Totals;
  series: Point[];
}

export interface SamplingParams {
  temperature: number;
  max_tokens: number | null;
  top_k: number;
  top_p: number;
  min_p: number;
  repetition_penalty: number;
  seed: number | null;
  n: number;
  stop: string[];
  stop_token_ids: number[];
  ignore_eos: boolean;
  best_of: number | null;
  use_beam_search: boolean;
  beam_width: number;
  length_penalty: number;
  min_tokens: number;
  logit_bias: Record<string, number>;
  logprobs: number | null;
  prompt_logprobs: number | null;
}

export interface SandboxItem {
  kind: "sandbox";
  index: number;
  section: number;
}

export interface SeatState {
  answered: boolean;
  here: boolean;
  lab: boolean;
  lost: boolean;
  name: string;
  remote: boolean;
  seat: number;
  wish: "drive" | "remote" | null;
}

export interface SequenceFigures {
  seq_id: number;
  parts: number[];
  prompt_token_ids: number[];
  tokens: Token[];
  status: "finished" | "preempted" | "receiving" | "running" | "waiting";
  finish_reason: "abort" | "dropped" | "length" | "stop" | null;
  submitted_in: number;
  num_cached_tokens: number;
  received_bytes: number;
  num_preemptions: number;
  num_steps: number;
  computed_tokens: number;
  blocks: number;
  blocks_peak: number;
  queue: number | null;
  ttft: number | null;
  ttft_steps: number | null;
  seconds: number | null;
}

export interface SequencePair {
  request_id: string;
  number: number;
  member: number;
  a: SequenceFigures | null;
  b: SequenceFigures | null;
  same_prompt: boolean;
  equal_tokens: number;
  difference: TokenDifference | null;
}

export interface SessionsAnswer {
  theaters: ListedSession[];
}

export interface SettingDifference {
  name: string;
  a: string | number | boolean | null;
  b: string | number | boolean | null;
}

export interface ShowItem {
  kind: "show";
  index: number;
  section: number;
  part: string;
  view: Record<string, string>;
}

export interface Status {
  api: ApiStatus | null;
  coming: number[];
  epoch: number;
  error: string | null;
  fork: ForkStatus | null;
  mode: "paused" | "recording" | "running";
  notice: string | null;
  num_records: number;
  objection: Objection | null;
  recording: RecordingStatus | null;
  said: Record<string, string>;
  speed: number;
  theater: string;
  unfinished: number;
  viewers: number;
}

export interface StatusAnswer {
  status: Status;
}

export interface StepMessage {
  theater: string;
  count?: number;
  expect?: number | null;
}

export interface StoredClass {
  began: number;
  ended: number | null;
  id: string;
  names: "none" | "optional";
  questions: number;
  students: number;
  title: string;
  until: string;
}

export interface StoredClassesAnswer {
  can_keep: boolean;
  classes: StoredClass[];
}

export interface SubmitMessage {
  theater: string;
  prompts: SubmittedPrompt[];
  sampling?: Record<string, unknown>;
}

export interface Submitted {
  num_records: number;
  requests: SubmittedRequest[];
}

export interface SubmittedPrompt {
  text: string;
  request_id?: string | null;
  priority?: number;
  cache_salt?: string | null;
  after_steps?: number;
}

export interface SubmittedRequest {
  num_prompt_tokens: number;
  request_id: string;
  seq_id: number;
}

export interface Summary {
  generator: string;
  created: string;
  model: string;
  config: Record<string, string | boolean | number | null>;
  num_records: number;
  num_steps: number;
  num_captures: number;
  num_bytes: number;
  duration: number;
  preview: string;
  num_requests: number | null;
  damage: string | null;
}

export interface Tally {
  answers: Counted[];
  unsure: number;
  others: number;
}

export interface Task {
  kind: "admit" | "leave" | "write";
  step: number;
  seq: number;
  start: number;
  end: number;
}

export interface TextItem {
  kind: "text";
  index: number;
  section: number;
  blocks: unknown[];
}

export interface Token {
  token_id: number;
  token_bytes: Uint8Array;
  logprob: number;
  record: number;
  step: number;
  chosen: boolean;
}

export interface TokenDifference {
  request_id: string;
  number: number;
  member: number;
  position: number;
  a: Token | null;
  b: Token | null;
}

export interface Tokenize {
  text: string;
  theater?: string | null;
}

export interface Tokenized {
  text: string;
  token_bytes: Uint8Array[];
  token_ids: number[];
}

export interface Totals {
  num_records: number;
  num_steps: number;
  seconds: number;
  requests: number;
  unfinished: number;
  output_tokens: number;
  computed_tokens: number;
  asked_tokens: number;
  hit_tokens: number;
  preemptions: number;
  evictions: number;
  copies: number;
  swapped_bytes: number;
  received_bytes: number;
  blocks_peak: number;
  bytes_peak: number;
  wasted_peak: number;
  flops: number;
  bytes_moved: number;
  operations: Record<string, number>;
}

export interface TurnRun {
  lines: string[];
  num_tokens: number;
  num_hit: number;
  diverges_at: number | null;
  again: number[];
  num_again: number;
  record: number;
}

export interface Unsaid {
  a: string[];
  b: string[];
  source_a: string;
  source_b: string;
}

export interface Verdict {
  grade: "differs" | "illegal" | "other" | "right";
  why: "alone" | "full" | "in_use" | "last_token" | "no_hash" | "nobody" | "not_in_table" | "other_tokens" | "still_hashed" | "still_read" | "twice" | "needless" | "not_head" | "not_tail" | "order" | null;
  refs: number;
}

export interface WorkItem {
  kind: "work";
  index: number;
  section: number;
  tasks: Task[];
  records: number;
  given: (GradedList | null)[];
  over: boolean;
  engine: Done[] | null;
}

/** Events of the socket: the client's arguments and the acknowledgement. */
export interface Events {
  create: { request: Create; answer: Joined };
  join: { request: JoinMessage; answer: Joined };
  leave: { request: OfSessionMessage; answer: Nothing };
  submit: { request: SubmitMessage; answer: Submitted };
  step: { request: StepMessage; answer: Performed };
  prefill: { request: PrefillMessage; answer: Performed };
  run: { request: PlayMessage; answer: StatusAnswer };
  pause: { request: OfSessionMessage; answer: StatusAnswer };
  abort: { request: AbortMessage; answer: Aborted };
  reset: { request: OfSessionMessage; answer: Begun };
  configure: { request: ConfigureMessage; answer: Begun };
  focus: { request: FocusMessage; answer: Nothing };
  recompute: { request: RecomputeMessage; answer: Recomputed };
  projection: { request: ProjectMessage; answer: Projected };
  record: { request: RecordMessage; answer: StatusAnswer };
  record_stop: { request: OfSessionMessage; answer: StatusAnswer };
  fork: { request: ForkMessage; answer: Forked };
  read: { request: ReadMessage; answer: RecordRange };
  tokenize: { request: Tokenize; answer: Tokenized };
  bench_follow: { request: Message; answer: { status: RunStatus } };
  bench_run: { request: BenchRun; answer: { status: RunStatus } };
  bench_stop: { request: Message; answer: { status: RunStatus } };
  lesson_open: { request: LessonOpen; answer: LessonOpened };
  lesson_look: { request: LessonLookMessage; answer: LessonOpened };
  lesson_go: { request: LessonGoMessage; answer: LessonState };
  lesson_answer: { request: LessonAnswerMessage; answer: LessonState };
  lesson_retell: { request: LessonRetell; answer: LessonReplayed };
  class_open: { request: ClassOpen; answer: ClassOpened };
  class_present: { request: ClassPresent; answer: Presenting };
  class_end: { request: OfClass; answer: Nothing };
  class_cast: { request: ClassCast; answer: Nothing };
  class_lesson: { request: ClassLesson; answer: Nothing };
  class_hold: { request: ClassHold; answer: Nothing };
  class_hand: { request: ClassHand; answer: Nothing };
  class_remote: { request: ClassRemote; answer: Nothing };
  class_send_away: { request: ClassSendAway; answer: Nothing };
  class_keep: { request: ClassKeep; answer: Nothing };
  class_unkeep: { request: OfClass; answer: Nothing };
  class_doors: { request: ClassDoors; answer: Nothing };
  class_labs: { request: ClassLabs; answer: Nothing };
  class_ask: { request: ClassAsk; answer: Nothing };
  class_poll: { request: ClassPoll; answer: Nothing };
  class_clock: { request: ClassClock; answer: Nothing };
  class_enter: { request: ClassEnter; answer: ClassEntered };
  class_rename: { request: ClassRename; answer: Mine };
  class_answer: { request: ClassAnswer; answer: Mine };
  class_lost: { request: ClassLost; answer: Mine };
  class_wish: { request: ClassWish; answer: Mine };
  class_lab: { request: ClassLab; answer: Mine };
  class_press: { request: ClassPress; answer: Nothing };
}

/** Events that the server pushes. */
export interface ServerEvents {
  records: Records;
  status: Status;
  reset: Reset;
  large: Large;
  closed: Closed;
  model: ModelStatus;
  bench_progress: RunStatus;
  class: ClassState;
  class_desk: ClassDesk;
  class_mine: Mine;
  class_left: ClassLeft;
  class_pressed: ClassPressed;
}

/** A value in JSON, where bytes are hexadecimal text. */
export type InJson<T> = T extends Uint8Array
  ? string
  : T extends readonly (infer U)[]
    ? InJson<U>[]
    : T extends object
      ? { [K in keyof T]: InJson<T[K]> }
      : T;

/** Answers by address. */
export interface Answers {
  "/api/model": InJson<ModelAnswer>;
  "/api/models": InJson<ModelsAnswer>;
  "/api/machine": InJson<Machine>;
  "/api/theaters": InJson<SessionsAnswer>;
  "/api/recordings": InJson<RecordingsAnswer>;
  "/api/compare": InJson<Comparison & { runs: ComparedRun[] }>;
  "/api/lessons": InJson<LessonsAnswer>;
  "/api/classes": InJson<StoredClassesAnswer>;
  "/api/bench": InJson<BenchAnswer>;
}
