// What the guards of the cache's books say, in words: engine/cache/guards.py.

import { t } from "./index.js";

const RULES = new Set([
  "shared_write", "shared_promise", "stale_hit", "stale_index", "unknown_hash", "ref_count", "negative_count",
  "double_free", "free_queue", "filled", "hashed_twice", "hash_unheld", "empty_hash", "counter", "table", "promise",
  "unwritten", "swapped_twice", "swap_space", "no_blocks", "released", "write_range", "has_blocks", "early_fork",
  "long_hit",
]);

/** An objection {rule, text, seq_id, block_id, said, counted} as a clause; one without a rule that is known here is quoted. */
export const objectionWords = (one) => t(`museum.objection.${RULES.has(one.rule) ? one.rule : "other"}`, one);
