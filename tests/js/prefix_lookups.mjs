// node prefix_lookups.mjs FILE.kvtrace: whether the page finds in the prefix cache what the engine's lookups found.

import { readFileSync } from "node:fs";

import { contentsOf } from "../../static/js/core/cached_contents.js";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { wouldHit } from "../../static/js/core/prefix_hit.js";
import { prefixTree } from "../../static/js/core/prefix_tree.js";
import { apply, copyState } from "../../static/js/core/state.js";

/** Count the outcomes of a log's lookups (`verdicts`), and return those that the page derives otherwise (`wrong`). */
export function lookupsAgree(log) {
  const [verdicts, ends, wrong] = [{}, {}, []];
  log.records.forEach((record, index) => {
    if (!(record.ops ?? []).some((op) => op.type === "lookup")) return;
    apply(copyState(log.stateAt(index - 1)), record, (op, state) => {
      if (op.type !== "lookup") return;
      verdicts[op.verdict] = (verdicts[op.verdict] ?? 0) + 1;
      if (!["hit", "miss", "too_short"].includes(op.verdict)) return; // it did not look
      const { token_ids: tokens } = state.sequences.get(op.seq_id);
      const salt = contentsOf(log).saltOf(op.seq_id);
      const found = wouldHit(log, prefixTree(log, state, record.instance), state, tokens, salt, index);
      ends[found.end] = (ends[found.end] ?? 0) + 1;
      const ids = found.path.flatMap((node) => node.blocks.map((block) => block.block_id));
      const same =
        found.tokens === op.num_hit_tokens &&
        op.block_ids.every((id) => ids.includes(id)) &&
        (op.reason !== "evicted" || found.end === "evicted") &&
        (op.verdict === "too_short") === (found.end === "too_short");
      if (!same) wrong.push({ record: index, op, found: { tokens: found.tokens, end: found.end, ids } });
    });
  });
  return { verdicts, ends, wrong };
}

if (process.argv[1]?.endsWith("prefix_lookups.mjs")) {
  const trace = parseTrace(readFileSync(process.argv[2]));
  const log = new TraceLog(trace.header);
  for (const bytes of trace.records) log.append(bytes);
  process.stdout.write(JSON.stringify(lookupsAgree(log)));
}
