// Metrics derived from records: latencies of a sequence, KV bytes, slots.

import { BusyTime } from "./busy_time.js";
import { folding } from "./folds.js";
import { RELEASED } from "./groups.js";
import { RequestParts } from "./request_parts.js";
import { lowest } from "./search.js";
import { kvKinds } from "./shape.js";

/** @import {Header, StepRecord} from "./trace.js" */

/**
 * @typedef {{records: StepRecord[], header?: Header}} Log
 * @typedef {{submitted: number, admitted: number | null, tokens: number[]}} Times record indices of the submission, the
 * first admission and each chosen token; for a request on several instances, of all its parts
 */

/**
 * Engine time: seconds in which the engine worked, without pauses between steps (such as those of stepping by
 * hand). Several instances compute concurrently: for them it is the time in which any of them worked (busy_time.js).
 * Maps arrivals and tokens of all sequences to that clock, incrementally.
 */
class EngineClock {
  /** @param {Log} log */
  constructor(log) {
    /** @type {number[]} per record: engine time at its end */
    this.at = [];
    /** @type {number[]} per record: engine time at its start */
    this.began = [];
    /** @type {Map<number, Times>} by sequence; the parts of a request share an entry */
    this.sequences = new Map();
    this.latest = 0; // highest engine time of any record
    this.parts = new RequestParts(log);
    this.busy = new BusyTime(); // of several instances
    /** @type {{at: number, began: number, latest: number}[]} of several instances: clock readings per record */
    this.readings = [];
  }

  /** @param {StepRecord} record */
  append(record) {
    const index = this.at.length;
    const seconds = stepSeconds(record);
    if (this.parts.isShared) {
      const { at } = record.timing;
      const latest = Math.max(at, this.readings[index - 1]?.latest ?? at);
      this.readings.push({ at, began: at - seconds, latest });
      const changed = this.busy.read(record, seconds);
      for (let i = index; i >= 0 && (i === index || this.readings[i].latest > changed); i -= 1) {
        this.at[i] = this.busy.before(this.readings[i].at);
        this.began[i] = this.busy.before(this.readings[i].began);
      }
    } else {
      this.began.push(this.at[index - 1] ?? 0);
      this.at.push(this.began[index] + seconds);
    }
    this.latest = this.parts.isShared ? this.busy.before(Infinity) : this.at[index];
    for (const op of record.ops ?? []) {
      const { before } = this.parts.read(op, record.instance ?? 0);
      const known = before === null ? undefined : this.sequences.get(before);
      if (op.type === "submit")
        this.sequences.set(op.seq_id, known ?? { submitted: index, admitted: null, tokens: [] });
      else if (op.type === "fork") this.#fork(op);
      else if (op.type === "sample") {
        if (!this.parts.producers.has(op.seq_id)) this.sequences.get(op.seq_id)?.tokens.push(index);
      } else if (op.type === "admit") {
        const times = this.sequences.get(op.seq_id);
        if (times) times.admitted ??= index;
      }
    }
  }

  /** Add a fork. It has its parent's submission and tokens. @param {import("./trace.js").Fork} op */
  #fork({ parent_seq_id: parent, seq_id: child }) {
    const times = this.sequences.get(parent);
    if (times) this.sequences.set(child, { ...times, tokens: times.tokens.slice() });
  }
}

const clockOf = folding(
  (/** @type {Log} */ log) => new EngineClock(log),
  (clock, record) => clock.append(record),
);

/**
 * Return the engine time at the end of record `index`, in seconds; 0 before the first.
 * @param {Log} log @param {number} index
 */
export const engineTime = (log, index) => clockOf(log).at[index] ?? 0;

/** Return the engine time at the start of record `index`, in seconds. @param {Log} log @param {number} index */
export const beganAt = (log, index) => clockOf(log).began[index] ?? 0;

/** Return the sequence that continues a request; undefined after the last part. @param {Log} log @param {number} seq */
export const partAfter = (log, seq) => clockOf(log).parts.next.get(seq);

/** Return the engine time at the log's end, in seconds. @param {Log} log */
export const latestTime = (log) => clockOf(log).latest;

/**
 * Times of a sequence in seconds of engine time; null while undefined.
 * @typedef {object} SequenceTimes
 * @property {number | null} queue from its submission to the start of the step that admitted it
 * @property {number | null} ttft from its submission to the end of the step that chose its first token (time to first
 *   token)
 * @property {number | null} tpot (last token − first token) / (tokens − 1) (time per output token)
 * @property {number} num_output_tokens including those that a fork has from its parent
 * @typedef {SequenceTimes & {itl: number[], itl_tokens: number[]}} Latencies `itl`: from one token to the next
 *   (inter-token latency); `itl_tokens`: index of the later token. `tpot` is the mean `itl` if steps choose one token
 *   each
 */

/**
 * Return the times of `seqId` up to record `index`.
 * @param {Log} log @param {number} seqId @param {number} index @returns {SequenceTimes}
 */
export function timesOf(log, seqId, index) {
  const clock = clockOf(log);
  const sequence = clock.sequences.get(seqId);
  if (!sequence || index < sequence.submitted) return { queue: null, ttft: null, tpot: null, num_output_tokens: 0 };
  const { submitted, admitted, tokens } = sequence;
  const count = countUpTo(tokens, index);
  const since = (/** @type {number} */ record) => clock.at[record] - clock.at[submitted];
  return {
    queue:
      admitted !== null && admitted <= index && admitted > 0
        ? Math.max(0, clock.began[admitted] - clock.at[submitted])
        : null,
    ttft: count ? since(tokens[0]) : null,
    tpot: count > 1 ? (since(tokens[count - 1]) - since(tokens[0])) / (count - 1) : null,
    num_output_tokens: count,
  };
}

/**
 * Return the latencies of `seqId` up to record `index`.
 * @param {Log} log @param {number} seqId @param {number} index @returns {Latencies}
 */
export function latencies(log, seqId, index) {
  const times = timesOf(log, seqId, index);
  const { at, sequences } = clockOf(log);
  const tokens = sequences.get(seqId)?.tokens.slice(0, times.num_output_tokens) ?? [];
  // accepted drafts arrive in the step of the preceding token, without a gap
  const later = tokens.flatMap((record, token) => (token === 0 || record === tokens[token - 1] ? [] : [token]));
  const itl = later.map((token) => at[tokens[token]] - at[tokens[token - 1]]);
  return { ...times, itl, itl_tokens: later };
}

const OUTLIER = 3; // minimum ratio to the next longest gap
const MIN_GAPS = 3; // required to detect an outlier

/**
 * Return the longest gap if it is an outlier that dominates the mean. A server's warm-up steps are
 * slow, and so is the switch to compiled code. Null if there is none.
 * @param {number[]} itl seconds between tokens
 * @returns {{seconds: number, rest: number} | null} its length, and the mean of the other gaps
 */
export function outlyingGap(itl) {
  if (itl.length < MIN_GAPS) return null;
  const [seconds, next] = [...itl].sort((a, b) => b - a);
  if (seconds < OUTLIER * next) return null;
  return { seconds, rest: (itl.reduce((sum, gap) => sum + gap, 0) - seconds) / (itl.length - 1) };
}

/** Return how many of the ascending `indices` are at most `index`. @param {number[]} indices @param {number} index */
const countUpTo = (indices, index) => lowest(indices.length, (i) => indices[i] > index);

/**
 * Return the phase of a step's batch; null if it computed nothing.
 * @param {Pick<StepRecord, "batch">} record @returns {"prefill" | "decode" | "mixed" | null}
 */
export function phaseOf(record) {
  const phases = new Set((record.batch ?? []).map((entry) => entry.phase));
  return phases.size > 1 ? "mixed" : ([...phases][0] ?? null);
}

/**
 * Return the bytes that a step moves, from `work`: weights read once, K and V read and written.
 * @param {NonNullable<StepRecord["work"]>} work
 */
export const bytesMoved = (work) => work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes;

/**
 * Return a step's point on the roofline: FLOPs and bytes from `work`, FLOPs per byte, and FLOPs per second of its
 * forward pass. Null for a record without work or time.
 * @param {Pick<StepRecord, "work" | "timing" | "batch">} record
 */
export function rooflinePoint(record) {
  const { work, timing } = record;
  const bytes = work ? bytesMoved(work) : 0;
  const forward = timing.forward ?? 0;
  if (!work || !(bytes > 0) || !(forward > 0)) return null;
  return {
    flops: work.flops,
    bytes,
    intensity: work.flops / bytes,
    achieved: work.flops / forward,
    phase: phaseOf(record),
  };
}

/** @typedef {{flops_per_second: number, bytes_per_second: number}} Roofs */

/**
 * Return the attainable FLOP/s of a step with `intensity` FLOPs per byte under `roofs`: min(peak, intensity ·
 * bandwidth).
 * @param {Roofs} roofs @param {number} intensity
 */
export const attainable = (roofs, intensity) => Math.min(roofs.flops_per_second, intensity * roofs.bytes_per_second);

/**
 * Return the ridge point: a step of lower intensity is memory-bound, one of higher intensity compute-bound.
 * @param {Roofs} roofs
 */
export const ridge = (roofs) => roofs.flops_per_second / roofs.bytes_per_second;

/**
 * Return the seconds that the engine worked in a record: schedule + prepare + forward + sample.
 * @param {Pick<StepRecord, "timing">} record
 */
export function stepSeconds(record) {
  const { schedule = 0, prepare = 0, forward = 0, sample = 0 } = record.timing;
  return schedule + prepare + forward + sample;
}

/** @type {Record<string, number>} by KV dtype */
const SCALE_BYTES = { int8: 2, int4: 4 }; // stored with each vector: a float16 scale, for int4 also a zero point

/**
 * Return the terms of the KV formula for a header, of all layers or of one block group: bytes per token = layers ·
 * kv_heads · ((head_dim + v_head_dim) · bytes + 2 · scale), which is 2 · layers · kv_heads · head_dim · bytes if K and
 * V have equal width and no scales. `element_bytes` is derived from the header's `kv_bytes_per_token`.
 * For latents (`latent_dim` > 0) it is layers · (latent_dim · bytes + scale), and `expanded_bytes` is the size of the
 * keys and values computed from them.
 * `kinds`: layers grouped by shape; with several kinds the formula is a sum over them, and the other sizes are those of
 * the first.
 * @param {Pick<Header, "model" | "engine" | "kv_bytes_per_token">} header
 * @param {import("./groups.js").Group | null} [group]
 */
export function kvTerms(header, group = null) {
  const { latent_dim = 0 } = header.model;
  const num_layers = group?.layers.length ?? header.model.num_layers;
  const kinds = num_layers ? kvKinds(header.model, group?.layers ?? []) : [];
  const { num_kv_heads, head_dim, v_head_dim } = kinds[0] ?? header.model;
  const bytes_per_token = group?.kv_bytes_per_token ?? header.kv_bytes_per_token;
  const scale_bytes = SCALE_BYTES[String(header.engine.kv_cache_dtype)] ?? 0;
  const as_heads = kinds.reduce((sum, k) => sum + k.num_layers * k.num_kv_heads * (k.head_dim + k.v_head_dim), 0);
  const vectors = 2 * kinds.reduce((sum, kind) => sum + kind.num_layers * kind.num_kv_heads, 0);
  const elements = latent_dim ? num_layers * latent_dim : as_heads;
  const scales = scale_bytes * (latent_dim ? num_layers : vectors);
  // layers of a group with states have no keys
  const element_bytes = elements ? (bytes_per_token - scales) / elements : 0;
  return {
    kinds,
    as_heads,
    num_layers,
    num_kv_heads,
    head_dim,
    v_head_dim,
    latent_dim,
    element_bytes,
    expanded_bytes: latent_dim ? as_heads * element_bytes + vectors * scale_bytes : bytes_per_token,
    scale_bytes,
    bytes_per_token,
  };
}

/** @typedef {ReturnType<typeof kvTerms>} KvTerms */

/** @typedef {{block: number, logical: number, offset: number, slot: number}} Slot */

/**
 * Return the block and slot of a position: slot = block_id · block_size + position mod block_size. Null if it has no
 * block or the block was released.
 * @param {number[] | undefined} table @param {number} blockSize @param {number} position @returns {Slot | null}
 */
export function slotOf(table, blockSize, position) {
  const logical = Math.floor(position / blockSize);
  const block = table?.[logical];
  if (block === undefined || block === RELEASED) return null;
  return { block, logical, offset: position % blockSize, slot: block * blockSize + (position % blockSize) };
}
