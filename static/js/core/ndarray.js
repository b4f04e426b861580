// Dense arrays of captures.

/** @typedef {Uint16Array | Float32Array | Int32Array | Uint8Array} Raw */

/** Dense array in C order. */
export class NdArray {
  /**
   * @param {string} dtype
   * @param {number[]} shape
   * @param {Raw} raw
   * @param {(raw: number) => number} value converts a raw element to a number
   */
  constructor(dtype, shape, raw, value) {
    this.dtype = dtype;
    this.shape = shape;
    this.raw = raw;
    this.value = value;
  }

  /** Return the element at the given indices, as a number. @param {...number} indices */
  at(...indices) {
    return this.value(this.raw[this.#offset(indices)]);
  }

  /** Return the last axis at the given leading indices, as a Float32Array. @param {...number} indices */
  row(...indices) {
    const width = this.shape[this.shape.length - 1];
    const start = this.#offset([...indices, 0]);
    const out = new Float32Array(width);
    for (let i = 0; i < width; i++) out[i] = this.value(this.raw[start + i]);
    return out;
  }

  /** @param {number[]} indices */
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
