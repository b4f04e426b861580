// Figures derived from records: latencies of a sequence, KV bytes, slots.

import { RELEASED } from "./groups.js";

/**
 * Engine time: seconds that the engine worked, without the pauses between its steps (someone who steps by hand is not a
 * slow model). Arrivals and tokens of every sequence on that clock; goes on where it stopped.
 */
class EngineClock {
  constructor() {
    this.at = []; // per record: engine time at its end
    this.sequences = new Map(); // seq_id -> {submitted, admitted, tokens: [record, …]}, all record indices
  }

  append(record) {
    const index = this.at.length;
    this.at.push((this.at.at(-1) ?? 0) + stepSeconds(record));
    for (const op of record.ops ?? []) {
      if (op.type === "submit") this.sequences.set(op.seq_id, { submitted: index, admitted: null, tokens: [] });
      else if (op.type === "fork") this.#fork(op, index);
      else if (op.type === "admit") this.sequences.get(op.seq_id).admitted ??= index;
    }
    for (const output of record.outputs ?? []) this.sequences.get(output.seq_id)?.tokens.push(index);
  }

  /** A fork arrived with its parent; tokens that it inherited are not its own. */
  #fork(op, index) {
    const parent = this.sequences.get(op.parent_seq_id);
    this.sequences.set(op.seq_id, {
      submitted: parent?.submitted ?? index,
      admitted: parent?.admitted ?? index,
      tokens: [],
    });
  }
}

const clocks = new WeakMap();

function clockOf(log) {
  let clock = clocks.get(log);
  if (!clock) clocks.set(log, (clock = new EngineClock()));
  while (clock.at.length < log.records.length) clock.append(log.records[clock.at.length]);
  return clock;
}

/**
 * Latencies of `seqId` as far as record `index`, seconds of engine time; null while not defined.
 *
 *   queue  from its submission to the beginning of the step that admitted it
 *   ttft   from its submission to the end of the step that chose its first token (time to first token)
 *   itl    between one token and the next, a list (inter-token latency)
 *   tpot   (last token − first token) / (tokens − 1), the mean of `itl` (time per output token)
 */
export function latencies(log, seqId, index) {
  const clock = clockOf(log);
  const sequence = clock.sequences.get(seqId);
  const none = { queue: null, ttft: null, tpot: null, itl: [], num_output_tokens: 0 };
  if (!sequence || index < sequence.submitted) return none;
  const { submitted, admitted } = sequence;
  const count = countUpTo(sequence.tokens, index);
  const since = (record) => clock.at[record] - clock.at[submitted];
  const times = sequence.tokens.slice(0, count).map(since);
  return {
    queue: admitted !== null && admitted <= index && admitted > 0 ? since(admitted - 1) : null,
    ttft: count ? times[0] : null,
    tpot: count > 1 ? (times[count - 1] - times[0]) / (count - 1) : null,
    itl: times.slice(1).map((time, i) => time - times[i]),
    num_output_tokens: count,
  };
}

/** How many of the ascending `indices` are at most `index`. */
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

/** What a step's batch was: `prefill`, `decode`, `mixed`, or null when it computed nothing. */
export function phaseOf(record) {
  const phases = new Set((record.batch ?? []).map((entry) => entry.phase));
  return phases.size > 1 ? "mixed" : ([...phases][0] ?? null);
}

/**
 * A step on the roofline: FLOPs and bytes as `work` counts them, FLOPs a byte, and FLOPs a second of its forward pass.
 * Null for a record without work or time.
 */
export function rooflinePoint(record) {
  const { work, timing } = record;
  const bytes = work ? work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes : 0;
  if (!(bytes > 0) || !(timing.forward > 0)) return null;
  return {
    flops: work.flops,
    bytes,
    intensity: work.flops / bytes,
    achieved: work.flops / timing.forward,
    phase: phaseOf(record),
  };
}

/** FLOP/s that a step of `intensity` FLOPs a byte can reach under `roofs`: min(peak, intensity · bandwidth). */
export const attainable = (roofs, intensity) => Math.min(roofs.flops_per_second, intensity * roofs.bytes_per_second);

/** The intensity where the two roofs meet: below it memory bounds a step, above it arithmetic does. */
export const ridge = (roofs) => roofs.flops_per_second / roofs.bytes_per_second;

/** Seconds the engine worked in a record: schedule + prepare + forward + sample. */
export function stepSeconds(record) {
  const { schedule = 0, prepare = 0, forward = 0, sample = 0 } = record.timing;
  return schedule + prepare + forward + sample;
}

const SCALE_BYTES = { int8: 2, int4: 4 }; // stored with each vector: a float16 scale; int4 a zero point too

/**
 * The terms of the KV formula for a header, of all layers or of one block `group`: bytes per token = layers · kv_heads · ((head_dim + v_head_dim) · bytes + 2 · scale),
 * which is 2 · layers · kv_heads · head_dim · bytes when K and V are equally wide and have no scales. `element_bytes` follows
 * from the header's own figure.
 */
export function kvTerms(header, group = null) {
  const { num_kv_heads, head_dim, v_head_dim } = header.model;
  const num_layers = group?.layers.length ?? header.model.num_layers;
  const bytes_per_token = group?.kv_bytes_per_token ?? header.kv_bytes_per_token;
  const scale_bytes = SCALE_BYTES[header.engine.kv_cache_dtype] ?? 0;
  const elements = num_layers * num_kv_heads * (head_dim + v_head_dim);
  return {
    num_layers,
    num_kv_heads,
    head_dim,
    v_head_dim,
    element_bytes: (bytes_per_token - 2 * num_layers * num_kv_heads * scale_bytes) / elements,
    scale_bytes,
    bytes_per_token,
  };
}

/**
 * The block and slot of a position: slot = block_id · block_size + position mod block_size. Null without a block, also when
 * the sequence let it go.
 */
export function slotOf(table, blockSize, position) {
  const logical = Math.floor(position / blockSize);
  const block = table?.[logical];
  if (block === undefined || block === RELEASED) return null;
  return { block, logical, offset: position % blockSize, slot: block * blockSize + (position % blockSize) };
}
