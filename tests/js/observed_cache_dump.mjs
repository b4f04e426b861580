// node observed_cache_dump.mjs FILE.kvtrace PROMPTS: what the page says of a monitored server's log at each record, as JSON.

import { readFileSync } from "node:fs";

import { branchesIn } from "../../static/js/core/branch_rows.js";
import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { observedCacheOf } from "../../static/js/core/observed_cache.js";
import { prefixTree } from "../../static/js/core/prefix_tree.js";

const trace = parseTrace(readFileSync(process.argv[2]));
const log = new TraceLog(trace.header);
for (const bytes of trace.records) log.append(bytes);
const heard = observedCacheOf(log);
const prompts = JSON.parse(process.argv[3]);
const found = [];
for (let index = -1; index < log.length; index++) {
  const said = heard.reports(index);
  const roots = said.map((_, rank) => heard.roots(rank, index).map(({ salt, tokens }) => ({ salt, tokens })));
  const trees = index < 0 ? [] : said.map((_, rank) => branchesIn(prefixTree(log, log.stateAt(index), rank), 1e6));
  found.push({ said, roots, chains: prompts.map((tokens) => heard.chains(tokens, index)), trees });
}
process.stdout.write(JSON.stringify(found));
