// Titles of the pool's block groups, where there are several: whose blocks these are, how many are held, and how many
// bytes.

import { figuresByGroup } from "../../core/groups.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { layer, log } from "../../state/store.js";
import { allLayers, groupTitle, keysText } from "../../tell/groups.js";
import { bytesText, grouped, t } from "../../tell/words.js";

/**
 * @typedef {import("../../state/store.js").State} State
 * @typedef {State["block_groups"][number]} Group
 * @typedef {ReturnType<typeof figuresByGroup>[number]} Figures
 */

/**
 * One line a group; `tops`: where each begins.
 *
 * @param {{now: State, tops: number[]}} props
 */
export function GroupTitles({ now, tops }) {
  const { block_groups: groups, block_size: size } = now;
  const figures = figuresByGroup(now);
  const nameOf = (/** @type {number} */ i) => groupTitle(log.value?.header, groups, i);
  const classOf = (/** @type {Group} */ { layers }) => `pool-group${layers.includes(layer.value) ? " shown" : ""}`;
  return tops.map(
    (top, i) => html`<p class=${classOf(groups[i])} data-group=${i} style=${{ top: `${top}px` }}
      onPointerMove=${stop} onClick=${stop}>
      <span class="group-name"
        title=${`${allLayers(groups[i].layers)} · ${keysText(groups[i])}`}>${nameOf(i)}</span>
      <span class="group-held num" tabindex="0" data-held=${figures[i].blocks_held}
        ...${tips(() => lines(groups[i], figures[i], size))}>
        ${t("group.held", {
          held: grouped(figures[i].blocks_held),
          n: grouped(groups[i].num_blocks),
          bytes: bytesText(figures[i].bytes_held),
        })} <${Fidelity} kind="derived"
            formula="blocks_held · block_size · bytes per token" />
      </span>
    </p>`,
  );
}

/** @param {Event} event */
const stop = (event) => event.stopPropagation(); // what lies below is the map of the blocks

/**
 * @param {Group} group
 * @param {Figures} figures
 * @param {number} size
 */
function lines(group, figures, size) {
  const said = [
    t("group.held.tip", {
      held: figures.blocks_held,
      n: group.num_blocks,
      size,
      token: grouped(group.kv_bytes_per_token),
      bytes: grouped(figures.bytes_held),
      tokens: grouped(figures.tokens_held),
    }),
  ];
  if (figures.blocks_cached) said.push(t("group.cached.tip", { n: figures.blocks_cached }));
  return said;
}
