// All texts of a first visit, by language and key. Each topic file holds both languages side by side; a test compares their keys.

import * as attention from "./topics/attention.js";
import * as chain from "./topics/chain.js";
import * as exported from "./topics/export.js";
import * as fork from "./topics/fork.js";
import * as groups from "./topics/groups.js";
import * as library from "./topics/library.js";
import * as memory from "./topics/memory.js";
import * as museum from "./topics/museum.js";
import * as page from "./topics/page.js";
import * as scheduler from "./topics/scheduler.js";
import * as score from "./topics/score.js";
import * as sentence from "./topics/sentence.js";
import * as stage from "./topics/stage.js";
import * as time from "./topics/time.js";
import * as transport from "./topics/transport.js";

const TOPICS = [attention, chain, exported, fork, groups, library, memory, museum, page, scheduler, score, sentence, stage, time, transport];

export const en = Object.assign({}, ...TOPICS.map((topic) => topic.en));
export const zh = Object.assign({}, ...TOPICS.map((topic) => topic.zh));
