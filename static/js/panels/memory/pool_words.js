// Descriptions of blocks and slots for tooltips and screen readers.

import { groupOf, ownersByBlock } from "../../core/groups.js";
import { labelText } from "../../core/labels.js";
import { groupTitle } from "../../i18n/groups.js";
import { hashText } from "../../i18n/operations.js";
import { t } from "../../i18n/words.js";
import { drawnIndex, log, sequenceView, showsEarlierRecord } from "../../state/store.js";
import { labelAt } from "./pool_paint.js";

/** @import {State} from "../../state/store.js" */

/** @typedef {State["blocks"][number]} Block */

/**
 * Describe a block, one sentence per line.
 * @param {State} now @param {Block} block
 * @param {Map<number, number>} places place in the free queue, by block id
 */
export function describeBlock(now, block, places) {
  const groups = now.block_groups;
  const lines = [t("pool.block", { id: block.block_id })];
  const group = groupTitle(log.value?.header, groups, groupOf(groups, block.block_id));
  if (group) lines.push(group);
  const place = places.get(block.block_id);
  if (block.ref_count > 0)
    lines.push(
      t("pool.block.held", {
        owners: (ownersByBlock(now).get(block.block_id) ?? []).map((id) => t("sequence.name", { id })).join(", "),
        n: block.ref_count,
        filled: block.token_ids.length,
        size: now.block_size,
      }),
    );
  else if (place === undefined) lines.push(t("pool.block.hole"));
  else lines.push(t(block.block_hash ? "pool.block.cached" : "pool.block.free", { place }));
  if (block.block_hash) lines.push(t("pool.block.hash", { hash: hashText(block.block_hash) }));
  return lines;
}

/** @param {State} now @param {Block} block @param {number} offset */
export function describeSlot(now, block, offset) {
  const slot = block.block_id * now.block_size + offset;
  if (offset >= block.token_ids.length) return t("pool.slot_empty", { slot });
  const content = labelAt(slot, drawnIndex.value);
  return content ? t("pool.slot", { slot, token: labelText(content.label) }) : t("pool.slot_empty", { slot });
}

/**
 * Return the selection for a block or slot: the key that the shown sequence has there, otherwise the block or slot
 * itself.
 * @param {number} block @param {number | null} offset
 * @returns {import("../../core/provenance/types.js").Selection}
 */
export function targetOf(block, offset) {
  if (offset === null) return { block };
  const now = showsEarlierRecord.value ? null : sequenceView.value; // an earlier record has other block tables
  const logical = now ? now.table.indexOf(block) : -1;
  if (!now || logical < 0) return { block, offset };
  const position = logical * now.blockSize + offset;
  return position < now.numFilled ? { position, seq: now.seq.seq_id } : { block, offset };
}
