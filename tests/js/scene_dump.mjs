// node scene_dump.mjs FILE.kvtrace SEQ END: one line of JSON, a scene's figures and its last sentence END with them.

import { readFileSync } from "node:fs";

import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { isOver, sceneFigures } from "../../static/js/core/scene_figures.js";
import { fill } from "../../static/js/i18n/words.js";

const [, , path, seq, end] = process.argv;
const { header, records } = parseTrace(readFileSync(path));
const log = new TraceLog(header);
const over = [];
for (const bytes of records) {
  log.append(bytes);
  over.push(isOver(log));
}
const figures = sceneFigures(log, Number(seq));
process.stdout.write(JSON.stringify({ figures, over, end: fill(end, figures, "en") }));
