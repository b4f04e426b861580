// Titles of the pool's block groups, if there are several: layers or instance, held blocks and bytes.

import { figuresByGroup, isOfStates } from "../../core/groups.js";
import { instanceName } from "../../core/instances.js";
import { allLayers, groupTitle, keysText } from "../../i18n/groups.js";
import { bytesText, grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { layer, log, record } from "../../state/store.js";

/** @import {State} from "../../state/store.js" */

/**
 * @typedef {State["block_groups"][number]} Group
 * @typedef {ReturnType<typeof figuresByGroup>[number]} Figures
 */

const SHORT_BELOW = 210; // px of width; narrower titles omit the bytes

/** Titles, one line per group. @param {{now: State, titles: import("./pool_geometry.js").Title[]}} props */
export function GroupTitles({ now, titles }) {
  const { block_groups: groups, block_size: size } = now;
  const figures = figuresByGroup(now);
  const nameOf = (/** @type {number} */ i) => groupTitle(log.value?.header, groups, i);
  const classOf = (/** @type {Group} */ { layers }) => `pool-group${layers.includes(layer.value) ? " shown" : ""}`;
  const instanceOf = (/** @type {number} */ i) => (log.value ? instanceName(log.value.header, groups[i].instance) : "");
  const px = (/** @type {number} */ n) => `${n}px`;
  return titles.map(
    ({ top, left, width }, i) => html`<p class=${classOf(groups[i])} data-group=${i}
      style=${{ top: px(top), left: px(left), width: px(width) }}
      onPointerMove=${stopEvent} onClick=${stopEvent}>
      <span class=${instanceOf(i) ? "group-name instance" : "group-name"}
        title=${`${allLayers(groups[i])} · ${keysText(groups[i])}`}>${nameOf(i)}</span>
      ${isLost(groups[i]) ? html`<b class="group-lost">${t("pool.lost")}</b>` : null}
      <span class="group-held num" tabindex="0" data-held=${figures[i].blocks_held}
        ...${tips(() => tipLines(groups[i], figures[i], size))}>
        ${t(width < SHORT_BELOW ? "group.held.short" : "group.held", {
          held: grouped(figures[i].blocks_held),
          n: grouped(groups[i].num_blocks),
          bytes: bytesText(figures[i].bytes_held),
        })} <${Fidelity} kind="derived"
            formula="blocks_held · block_size · bytes per token" />
      </span>
    </p>`,
  );
}

/** Whether the group's instance ends in the shown record. @param {Group} group */
const isLost = ({ instance }) => record.value?.kind === "lost" && (record.value.instance ?? 0) === instance;

/** @param {Event} event */
const stopEvent = (event) => event.stopPropagation(); // the map below does not handle it

/** @param {Group} group @param {Figures} figures @param {number} size */
function tipLines(group, figures, size) {
  const facts = [
    t(isOfStates(group) ? "group.held.states" : "group.held.tip", {
      held: figures.blocks_held,
      n: group.num_blocks,
      size,
      token: grouped(group.kv_bytes_per_token),
      each: grouped(group.state_bytes),
      bytes: grouped(figures.bytes_held),
      tokens: grouped(figures.tokens_held),
    }),
  ];
  if (figures.blocks_cached) facts.push(t("group.cached.tip", { n: figures.blocks_cached }));
  return facts;
}
