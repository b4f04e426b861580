// Figures derived from records: latencies of a sequence, KV bytes, slots.

import { BusyTime } from "./busy_time.js";
import { RELEASED } from "./groups.js";
import { RequestParts } from "./parts.js";
import { kvKinds } from "./shape.js";

/**
 * @typedef {import("./trace.js").StepRecord} StepRecord
 * @typedef {import("./trace.js").Header} Header
 * @typedef {{records: StepRecord[], header?: Header}} Log
 * @typedef {{submitted: number, admitted: number | null, tokens: number[]}} Times all record indices: the submission,
 *   the first
 *   admission, and where each token was chosen; of a request that went over several instances, of all its parts
 */

/**
 * Engine time: seconds that the engine worked, without the pauses between its steps (someone who steps by hand is not a
 * slow model). Several instances compute at once: theirs are the seconds in which any of them worked (busy_time.js).
 * Arrivals and tokens of every sequence on that clock; goes on where it stopped.
 */
class EngineClock {
  /** @param {Log} log */
  constructor(log) {
    /** @type {number[]} per record: engine time at its end */
    this.at = [];
    /** @type {number[]} per record: engine time at its beginning */
    this.began = [];
    /** @type {Map<number, Times>} by sequence; the parts of a request have theirs in common */
    this.sequences = new Map();
    this.latest = 0; // engine time that a record reached
    this.parts = new RequestParts(log);
    this.busy = new BusyTime(); // of several instances
    /** @type {{at: number, began: number, latest: number}[]} of several instances: readings of the clock, per record */
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

  /** A fork arrived with its parent, and begins with its tokens. @param {import("./trace.js").Fork} op */
  #fork({ parent_seq_id: parent, seq_id: child }) {
    const times = this.sequences.get(parent);
    if (times) this.sequences.set(child, { ...times, tokens: times.tokens.slice() });
  }
}

/** @type {WeakMap<Log, EngineClock>} */
const clocks = new WeakMap();

/** @param {Log} log */
function clockOf(log) {
  let clock = clocks.get(log);
  if (!clock) clocks.set(log, (clock = new EngineClock(log)));
  while (clock.at.length < log.records.length) clock.append(log.records[clock.at.length]);
  return clock;
}

/** Engine time at the end of record `index`, seconds; 0 before the first. @param {Log} log @param {number} index */
export const engineTime = (log, index) => clockOf(log).at[index] ?? 0;

/** Engine time at the beginning of record `index`, seconds. @param {Log} log @param {number} index */
export const beganAt = (log, index) => clockOf(log).began[index] ?? 0;

/**
 * The part of its request that comes after a sequence; undefined: it is the last.
 * @param {Log} log @param {number} seq
 */
export const partAfter = (log, seq) => clockOf(log).parts.next.get(seq);

/** Engine time as far as the log is here, seconds. @param {Log} log */
export const latestTime = (log) => clockOf(log).latest;

/**
 * Times of a sequence, seconds of engine time; null while not defined.
 * @typedef {object} SequenceTimes
 * @property {number | null} queue from its submission to the beginning of the step that admitted it
 * @property {number | null} ttft from its submission to the end of the step that chose its first token (time to first
 *   token)
 * @property {number | null} tpot (last token − first token) / (tokens − 1) (time per output token)
 * @property {number} num_output_tokens a fork's begin with those of its parent
 * @typedef {SequenceTimes & {itl: number[], itl_tokens: number[]}} Latencies `itl`: from one token to the next
 *   (inter-token latency), and which token each ends at; `tpot` is its mean where each step brings one token
 */

/**
 * The times of `seqId` as far as record `index`.
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
 * The latencies of `seqId` as far as record `index`.
 * @param {Log} log @param {number} seqId @param {number} index @returns {Latencies}
 */
export function latencies(log, seqId, index) {
  const times = timesOf(log, seqId, index);
  const { at, sequences } = clockOf(log);
  const tokens = sequences.get(seqId)?.tokens.slice(0, times.num_output_tokens) ?? [];
  // accepted drafts come in the step of the token before them, with no gap between
  const later = tokens.flatMap((record, token) => (token === 0 || record === tokens[token - 1] ? [] : [token]));
  const itl = later.map((token) => at[tokens[token]] - at[tokens[token - 1]]);
  return { ...times, itl, itl_tokens: later };
}

const OUTLIER = 3; // times the next longest gap
const FEWEST = 3; // gaps, of which one can be told to be unlike the others

/**
 * The gap that weighs on the mean of all: the longest, when no other is nearly as long. A server's first steps warm up,
 * and the one in which compiled code takes over is slow. Null when there is none.
 * @param {number[]} itl seconds between tokens
 * @returns {{seconds: number, rest: number} | null} how long it is; the mean of the others
 */
export function outlyingGap(itl) {
  if (itl.length < FEWEST) return null;
  const [seconds, next] = [...itl].sort((a, b) => b - a);
  if (seconds < OUTLIER * next) return null;
  return { seconds, rest: (itl.reduce((sum, gap) => sum + gap, 0) - seconds) / (itl.length - 1) };
}

/** How many of the ascending `indices` are at most `index`. @param {number[]} indices @param {number} index */
function countUpTo(indices, index) {
  let low = 0;
  let high = indices.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (indices[middle] <= index) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * What a step's batch was; null when it computed nothing.
 * @param {Pick<StepRecord, "batch">} record @returns {"prefill" | "decode" | "mixed" | null}
 */
export function phaseOf(record) {
  const phases = new Set((record.batch ?? []).map((entry) => entry.phase));
  return phases.size > 1 ? "mixed" : ([...phases][0] ?? null);
}

/**
 * Bytes that a step moves, as `work` counts them: weights read once, K and V read and written.
 * @param {NonNullable<StepRecord["work"]>} work
 */
export const bytesMoved = (work) => work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes;

/**
 * A step on the roofline: FLOPs and bytes as `work` counts them, FLOPs a byte, and FLOPs a second of its forward pass.
 * Null for a record without work or time.
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
 * FLOP/s that a step of `intensity` FLOPs a byte can reach under `roofs`: min(peak, intensity · bandwidth).
 * @param {Roofs} roofs @param {number} intensity
 */
export const attainable = (roofs, intensity) => Math.min(roofs.flops_per_second, intensity * roofs.bytes_per_second);

/**
 * The intensity where the two roofs meet: below it memory bounds a step, above it arithmetic does.
 * @param {Roofs} roofs
 */
export const ridge = (roofs) => roofs.flops_per_second / roofs.bytes_per_second;

/**
 * Seconds the engine worked in a record: schedule + prepare + forward + sample.
 * @param {Pick<StepRecord, "timing">} record
 */
export function stepSeconds(record) {
  const { schedule = 0, prepare = 0, forward = 0, sample = 0 } = record.timing;
  return schedule + prepare + forward + sample;
}

/** @type {Record<string, number>} by KV dtype */
const SCALE_BYTES = { int8: 2, int4: 4 }; // stored with each vector: a float16 scale; int4 a zero point too

/**
 * The terms of the KV formula for a header, of all layers or of one block group: bytes per token = layers · kv_heads ·
 * ((head_dim + v_head_dim) · bytes + 2 · scale), which is 2 · layers · kv_heads · head_dim · bytes when K and V are
 * equally wide and have no scales. `element_bytes` follows from the header's own figure. Where latents are kept
 * (`latent_dim` > 0) it is layers · (latent_dim · bytes + scale), and `expanded_bytes` is what the keys and values that
 * are computed from them would take. `kinds`: layers of one shape together; where there are several the formula is a
 * sum over them, and the other sizes are the first kind's.
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
  // a group whose blocks hold states has no layers with keys
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
 * The block and slot of a position: slot = block_id · block_size + position mod block_size. Null without a block, also
 * when the sequence let it go.
 * @param {number[] | undefined} table @param {number} blockSize @param {number} position @returns {Slot | null}
 */
export function slotOf(table, blockSize, position) {
  const logical = Math.floor(position / blockSize);
  const block = table?.[logical];
  if (block === undefined || block === RELEASED) return null;
  return { block, logical, offset: position % blockSize, slot: block * blockSize + (position % blockSize) };
}
