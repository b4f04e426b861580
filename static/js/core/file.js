// Parser of `.kvtrace` files in the browser: magic, then frames (see engine/trace/codec.py).

import { asBytes, TraceFormatError } from "./codec.js";

const MAGIC = [0x4b, 0x56, 0x54, 0x52, 0x41, 0x43, 0x45, 0x01]; // KVTRACE, version 1
const FRAME_HEAD = 9; // kind u8, length u32, CRC-32 u32, little endian
/** @type {Record<number, string>} */
const KINDS = { 1: "header", 2: "record", 3: "capture", 4: "keyframe" };
const MAX_PAYLOAD = 256 * 1024 * 1024;

/**
 * @typedef {object} Trace frames of a file, as views of its bytes
 * @property {Uint8Array} header
 * @property {Uint8Array[]} records
 * @property {(Uint8Array | null)[]} captures parallel to `records`
 * @property {string | null} damage why the tail was dropped, and where it starts
 */

/** Return whether a file that begins with `bytes` is a trace of the supported version. @param {Uint8Array} bytes */
export const beginsAsTrace = (bytes) => MAGIC.every((byte, i) => bytes[i] === byte);

/**
 * Parse the frames of a trace and drop a damaged tail. Throws TraceFormatError if the start is not a trace.
 * @param {unknown} buffer
 * @returns {Trace}
 */
export function parseTrace(buffer) {
  const bytes = asBytes(buffer);
  if (!beginsAsTrace(bytes)) throw new TraceFormatError("not a .kvtrace file, version 1");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const first = readFrame(bytes, view, MAGIC.length);
  if (first.kind !== "header") throw new TraceFormatError(`a ${first.kind} where the header belongs`);
  /** @type {Trace} */
  const trace = { header: first.payload, records: [], captures: [], damage: null };
  let offset = first.end;
  while (offset < bytes.length) {
    try {
      const frame = readFrame(bytes, view, offset);
      if (frame.kind === "record") {
        trace.records.push(frame.payload);
        trace.captures.push(null);
      } else if (frame.kind === "header" || !trace.records.length) {
        throw new TraceFormatError(`a ${frame.kind} at byte ${offset}`);
      } else if (frame.kind === "capture") {
        trace.captures[trace.records.length - 1] = frame.payload;
      }
      offset = frame.end;
    } catch (error) {
      if (!(error instanceof TraceFormatError)) throw error;
      trace.damage = error.message;
      break;
    }
  }
  return trace;
}

/** @param {Uint8Array} bytes @param {DataView} view @param {number} offset */
function readFrame(bytes, view, offset) {
  if (offset + FRAME_HEAD > bytes.length)
    throw new TraceFormatError(`the file ends inside a frame head at byte ${offset}`);
  const kind = KINDS[bytes[offset]];
  const length = view.getUint32(offset + 1, true);
  const checksum = view.getUint32(offset + 5, true);
  if (!kind || length > MAX_PAYLOAD) throw new TraceFormatError(`no valid frame at byte ${offset}`);
  const start = offset + FRAME_HEAD;
  if (start + length > bytes.length) throw new TraceFormatError(`the file ends inside the ${kind} at byte ${offset}`);
  const payload = bytes.subarray(start, start + length);
  if (crc32(payload) !== checksum) throw new TraceFormatError(`the ${kind} at byte ${offset} fails its checksum`);
  return { kind, payload, end: start + length };
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
  return c;
});

/** Return the CRC-32 of `bytes`, as zlib computes it. @param {Uint8Array} bytes */
function crc32(bytes) {
  let crc = 0xffffffff;
  for (let i = 0; i < bytes.length; i++) crc = CRC_TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
