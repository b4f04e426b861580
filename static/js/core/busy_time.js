// Engine time of several instances: seconds in which at least one computed or transferred blocks. Mirrors
// engine/trace/busy_time.py.

import { lowest } from "./search.js";

/** Union of clock intervals, in seconds since the trace began, added in any order. */
export class BusyTime {
  /** @type {number[]} of disjoint intervals, ascending */
  #starts = [];
  /** @type {number[]} */
  #ends = [];
  /** @type {number[]} seconds of all intervals before each */
  #sums = [];

  /**
   * Add a record's step of `seconds` and the transfers that ended in it. Returns the clock reading at which the
   * earliest of them began; engine time at later readings may have changed.
   * @param {import("./trace.js").StepRecord} record
   * @param {number} seconds
   */
  read(record, seconds) {
    const { at } = record.timing;
    const moved = (record.ops ?? []).filter((op) => op.type === "arrive");
    const from = moved.length ? Math.min(...moved.map((op) => op.began)) : at;
    const to = moved.length ? Math.max(...moved.map((op) => op.ended)) : at;
    this.add(at - seconds, at);
    this.add(from, to);
    return Math.min(at - seconds, from);
  }

  /** Add an interval; no-op for an empty one. @param {number} start @param {number} end */
  add(start, end) {
    if (end <= start) return;
    const [starts, ends, sums] = [this.#starts, this.#ends, this.#sums];
    let first = ends.length;
    while (first && ends[first - 1] >= start) first -= 1;
    let after = first;
    for (; after < starts.length && starts[after] <= end; after += 1) {
      start = Math.min(start, starts[after]);
      end = Math.max(end, ends[after]);
    }
    starts.splice(first, after - first, start);
    ends.splice(first, after - first, end);
    sums.length = first;
    for (let place = first; place < starts.length; place += 1)
      sums.push(place ? sums[place - 1] + ends[place - 1] - starts[place - 1] : 0);
  }

  /** Return the engine time before a clock reading. @param {number} at */
  before(at) {
    const place = lowest(this.#starts.length, (i) => this.#starts[i] > at) - 1;
    return place < 0 ? 0 : this.#sums[place] + Math.min(at, this.#ends[place]) - this.#starts[place];
  }
}
