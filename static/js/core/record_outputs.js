// Context of a record's operations: its outputs, each consumed once, and its drafts. Mirrors
// engine/trace/record_outputs.py. Pure.

/** @import {Output} from "./trace.js" */

export class RecordOutputs {
  /** @param {Output[]} outputs a step that verifies drafts may choose a token several times */
  constructor(outputs) {
    /** @type {Map<string, Output[]>} */
    this.byToken = new Map();
    for (const output of outputs) {
      const key = `${output.seq_id},${output.token_id}`;
      const found = this.byToken.get(key);
      if (found) found.push(output);
      else this.byToken.set(key, [output]);
    }
    /** @type {Map<number, number[]>} draft tokens by sequence */
    this.drafts = new Map();
  }

  /**
   * Return the sequence's next output with this token; the last one again if there is no other.
   * @param {number} seq
   * @param {number} token
   */
  take(seq, token) {
    const found = this.byToken.get(`${seq},${token}`);
    return found && found.length > 1 ? found.shift() : found?.[0];
  }
}
