// Where a recorded lesson leads, as the page finds it: one line for each place and answers that are asked for.

import { readFileSync } from "node:fs";
import { progressOf } from "../../static/js/core/lesson_replay.js";

const { transcript, asked } = JSON.parse(readFileSync(0, "utf8"));
for (const [at, answers] of asked) console.log(JSON.stringify(progressOf(transcript, at, answers)));
