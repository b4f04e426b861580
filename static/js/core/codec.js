// Decoding of trace data in the browser: msgpack, with arrays as extension type 1 (see engine/trace/codec.py).

import { Decoder } from "../../vendor/msgpack/Decoder.mjs";
import { ExtensionCodec } from "../../vendor/msgpack/ExtensionCodec.mjs";
import { NdArray } from "./ndarray.js";
import { wrongIn } from "./types.js";

const ARRAY_EXT = 1;
const MAX_DIMENSIONS = 8;
const MAX_ELEMENTS = 256 * 1024 * 1024; // also limits the product of the other dimensions if one is 0

/** Error for bytes that are not valid trace data. */
export class TraceFormatError extends Error {}

const HALF_TO_FLOAT = halfTable();

/**
 * @type {Record<number, {name: string, bytes: number, view: (buffer: ArrayBuffer) => import("./ndarray.js").Raw,
 * value: (raw: number) => number}>}
 */
const DTYPES = {
  1: { name: "f16", bytes: 2, view: (b) => new Uint16Array(b), value: (raw) => HALF_TO_FLOAT[raw] },
  2: { name: "f32", bytes: 4, view: (b) => new Float32Array(b), value: (raw) => raw },
  3: { name: "i32", bytes: 4, view: (b) => new Int32Array(b), value: (raw) => raw },
  4: { name: "u8", bytes: 1, view: (b) => new Uint8Array(b), value: (raw) => raw },
};

const extensions = new ExtensionCodec();
extensions.register({
  type: ARRAY_EXT,
  encode: () => null,
  decode: decodeArray,
});

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * @typedef {{Header: import("./trace.js").Header, StepRecord: import("./trace.js").StepRecord,
 *   Capture: import("./trace.js").Capture, LayerCapture: import("./trace.js").LayerCapture}} Kinds
 */

/** @type {new (options: object) => any} avoids the vendored types, which declare the members used below as private */
const Base = Decoder;

/** Decoder that rejects what Python's reader rejects: text that is not UTF-8 and keys that are not text. */
class StrictDecoder extends Base {
  /** @param {number} byteLength @param {number} headerOffset @returns {string} */
  decodeUtf8String(byteLength, headerOffset) {
    const start = this.pos + headerOffset;
    const isKey = this.stateIsMapKey();
    const text = super.decodeUtf8String(byteLength, headerOffset);
    /** @type {Uint8Array} */
    const bytes = this.bytes.subarray(start, start + byteLength);
    if (bytes.every((byte) => byte < 128)) return text;
    try {
      return UTF8.decode(bytes);
    } catch {
      if (isKey) return `\ud800${bytes.join(" ")}`; // unknown as a field, rejected as a map key
      throw new TraceFormatError("text that is not UTF-8");
    }
  }
}

const decoder = new StrictDecoder({
  extensionCodec: extensions,
  mapKeyConverter(/** @type {unknown} */ key) {
    if (typeof key === "string") return key;
    throw new TraceFormatError("a key that is not text");
  },
});

/** Decode `bytes`. Throws TraceFormatError if they are not msgpack. @param {unknown} bytes @returns {unknown} */
export function decode(bytes) {
  try {
    return decoder.decode(asBytes(bytes));
  } catch (error) {
    throw error instanceof TraceFormatError ? error : new TraceFormatError(`not valid msgpack: ${messageOf(error)}`);
  }
}

/**
 * Decode the `kind` of engine/trace/records.py from `bytes`. Throws TraceFormatError for anything else.
 * @template {keyof Kinds} K
 * @param {unknown} bytes
 * @param {K} kind
 * @returns {Kinds[K]}
 */
export function decodeAs(bytes, kind) {
  let value;
  try {
    value = decode(bytes);
  } catch (error) {
    throw new TraceFormatError(`not a valid ${kind}: ${messageOf(error)}`);
  }
  const wrong = wrongIn(value, kind);
  if (wrong !== null) throw new TraceFormatError(`not a valid ${wrong}`);
  return /** @type {any} checked by `wrongIn` */ (value);
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/** Return a Uint8Array over the bytes of a buffer or view. @param {unknown} binary */
export function asBytes(binary) {
  if (binary instanceof Uint8Array) return binary;
  if (binary instanceof ArrayBuffer) return new Uint8Array(binary);
  if (ArrayBuffer.isView(binary)) return new Uint8Array(binary.buffer, binary.byteOffset, binary.byteLength);
  throw new TraceFormatError("text where bytes belong");
}

/** @param {Uint8Array} data */
function decodeArray(data) {
  const dtype = DTYPES[data[0]];
  const ndim = data[1];
  if (data.length < 2 || !dtype) throw new TraceFormatError("an unknown array type");
  const start = 2 + 4 * ndim;
  if (ndim > MAX_DIMENSIONS || data.length < start) throw new TraceFormatError("an array whose shape is cut off");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const shape = Array.from({ length: ndim }, (_, axis) => view.getUint32(2 + 4 * axis, true));
  const count = shape.reduce((product, n) => product * n, 1);
  if (shape.reduce((product, n) => product * Math.max(n, 1), 1) > MAX_ELEMENTS)
    throw new TraceFormatError(`an array of shape ${shape}`);
  if (data.length - start !== count * dtype.bytes)
    throw new TraceFormatError(`an array of shape ${shape} with ${data.length - start} bytes`);
  // copied into its own buffer, so that the typed view is aligned
  const body = Uint8Array.prototype.slice.call(data, start);
  return new NdArray(dtype.name, shape, dtype.view(body.buffer), dtype.value);
}

/** Return all 65,536 half-precision values as a lookup table. */
function halfTable() {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    let value;
    if (exponent === 0) value = fraction * 2 ** -24;
    else if (exponent === 31) value = fraction ? NaN : Infinity;
    else value = (1 + fraction / 1024) * 2 ** (exponent - 15);
    table[bits] = bits & 0x8000 ? -value : value;
  }
  return table;
}
