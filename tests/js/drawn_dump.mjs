// node drawn_dump.mjs FILE.kvtrace EXPECTED.json: K and V of every position as the page draws them, of a log that grows
// (live) and of the whole one asked to and fro (replay). EXPECTED: {seq_id: [{k, v}, of each layer]}, [T, Hkv, D].
// Prints how many vectors there are, the largest distance from what is expected, and how many differ between the two.

import { readFileSync } from "node:fs";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { sequenceViewAt, vectorOf } from "../../static/js/core/sequence_view.js";
import { kvHeadsOf } from "../../static/js/core/shape.js";

const [path, expectedPath] = process.argv.slice(2);
const trace = parseTrace(readFileSync(path));
const expected = JSON.parse(readFileSync(expectedPath, "utf8"));
const result = { vectors: 0, distance: 0, different: 0 };

/** Vectors of all sequences after a record by their place: null where the page draws none. */
function drawnAt(log, index) {
  const { model } = log.header;
  const found = new Map();
  for (const seqId of log.stateAt(index).sequences.keys())
    for (let layer = 0; layer < model.num_layers; layer++)
      for (const kvHead of kvHeadsOf(model, layer)) {
        const head = (kvHead * model.num_heads) / kvHeadsOf(model, layer).length;
        const view = sequenceViewAt(log, index, seqId, layer, head);
        for (let position = 0; position < view.numFilled; position++)
          for (const kind of ["k", "v"])
            found.set(`${seqId}/${layer}/${kvHead}/${position}/${kind}`, vectorOf(view, kind, position));
      }
  return found;
}

const whole = new TraceLog(trace.header);
for (const [i, bytes] of trace.records.entries()) whole.append(bytes, trace.captures[i]);
const live = new TraceLog(trace.header);
const seen = trace.records.map((bytes, i) => {
  live.append(bytes, trace.captures[i]);
  return drawnAt(live, i);
});
for (let i = 0; i < whole.length; i++) {
  const index = (i * 37) % whole.length; // any order
  const drawn = drawnAt(whole, index);
  for (const [place, vector] of seen[index]) {
    const again = drawn.get(place);
    if (String(again) !== String(vector)) result.different += 1;
    if (!vector) continue;
    const [seqId, layer, kvHead, position, kind] = place.split("/");
    const wanted = expected[seqId][layer][kind][position][kvHead];
    if (vector.length !== wanted.length) throw new Error(`${place}: ${vector.length} numbers, not ${wanted.length}`);
    result.vectors += 1;
    for (const [at, value] of vector.entries())
      result.distance = Math.max(result.distance, Math.abs(value - wanted[at]));
  }
}
process.stdout.write(JSON.stringify(result));
