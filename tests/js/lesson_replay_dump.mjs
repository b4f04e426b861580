// Positions of a recorded lesson as the page reaches them: one line for each position and requested answers.

import { readFileSync } from "node:fs";
import { progressOf } from "../../static/js/core/lesson_replay.js";

const { transcript, asked } = JSON.parse(readFileSync(0, "utf8"));
for (const [at, answers] of asked) console.log(JSON.stringify(progressOf(transcript, at, answers)));
