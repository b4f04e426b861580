// Bytes of a trace in the browser: msgpack, with arrays as extension type 1 (see engine/trace/codec.py).

import { Decoder } from "../../vendor/msgpack/Decoder.mjs";
import { ExtensionCodec } from "../../vendor/msgpack/ExtensionCodec.mjs";

const ARRAY_EXT = 1;
const MAX_DIMENSIONS = 8;

/** Bytes that are not what a trace holds. */
export class TraceFormatError extends Error {}

const HALF_TO_FLOAT = halfTable();

const DTYPES = {
  1: { name: "f16", bytes: 2, view: (b) => new Uint16Array(b), value: (raw) => HALF_TO_FLOAT[raw] },
  2: { name: "f32", bytes: 4, view: (b) => new Float32Array(b), value: (raw) => raw },
  3: { name: "i32", bytes: 4, view: (b) => new Int32Array(b), value: (raw) => raw },
  4: { name: "u8", bytes: 1, view: (b) => new Uint8Array(b), value: (raw) => raw },
};

/** A dense array in C order. `row(i, j, …)` reads along the last axis without copying the rest. */
export class NdArray {
  constructor(dtype, shape, raw, value) {
    this.dtype = dtype;
    this.shape = shape;
    this.raw = raw;
    this.value = value;
  }

  /** The element at the given indices, as a number. */
  at(...indices) {
    return this.value(this.raw[this.#offset(indices)]);
  }

  /** The last axis at the given leading indices, as a Float32Array. */
  row(...indices) {
    const width = this.shape[this.shape.length - 1];
    const start = this.#offset([...indices, 0]);
    const out = new Float32Array(width);
    for (let i = 0; i < width; i++) out[i] = this.value(this.raw[start + i]);
    return out;
  }

  #offset(indices) {
    let offset = 0;
    for (let axis = 0; axis < this.shape.length; axis++) {
      const index = indices[axis];
      if (!(index >= 0 && index < this.shape[axis]))
        throw new RangeError(`index ${index} of an axis of ${this.shape[axis]}`);
      offset = offset * this.shape[axis] + index;
    }
    return offset;
  }
}

const extensions = new ExtensionCodec();
extensions.register({
  type: ARRAY_EXT,
  encode: () => null,
  decode: decodeArray,
});

const decoder = new Decoder({ extensionCodec: extensions });

/** The header, record or capture in `bytes`. Throws TraceFormatError on anything else. */
export function decode(bytes) {
  try {
    return decoder.decode(asBytes(bytes));
  } catch (error) {
    throw error instanceof TraceFormatError ? error : new TraceFormatError(`not valid msgpack: ${error.message}`);
  }
}

/** A Uint8Array over whatever binary type a transport delivers. */
export function asBytes(binary) {
  if (binary instanceof Uint8Array) return binary;
  if (binary instanceof ArrayBuffer) return new Uint8Array(binary);
  if (ArrayBuffer.isView(binary)) return new Uint8Array(binary.buffer, binary.byteOffset, binary.byteLength);
  throw new TraceFormatError("text where bytes belong");
}

function decodeArray(data) {
  const dtype = DTYPES[data[0]];
  const ndim = data[1];
  if (data.length < 2 || !dtype) throw new TraceFormatError("an unknown array type");
  const start = 2 + 4 * ndim;
  if (ndim > MAX_DIMENSIONS || data.length < start) throw new TraceFormatError("an array whose shape is cut off");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const shape = Array.from({ length: ndim }, (_, axis) => view.getUint32(2 + 4 * axis, true));
  const count = shape.reduce((product, n) => product * n, 1);
  if (data.length - start !== count * dtype.bytes)
    throw new TraceFormatError(`an array of shape ${shape} with ${data.length - start} bytes`);
  const body = data.slice(start); // its own buffer: aligned for the typed view
  return new NdArray(dtype.name, shape, dtype.view(body.buffer), dtype.value);
}

/** All 65,536 half-precision values, so that reading one is a lookup. */
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
