// A block's hash as the key of a map. Pure.

/** @type {WeakMap<Uint8Array, string>} the same bytes stay the same object from state to state */
const written = new WeakMap();

/** A hash as text, to be a key. @param {Uint8Array} hash */
export function hashKey(hash) {
  let found = written.get(hash);
  if (found === undefined) {
    found = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    written.set(hash, found);
  }
  return found;
}
