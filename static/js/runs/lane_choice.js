// Selection of the lane shown on stage and in the memory region.

import { t } from "../i18n/words.js";
import { html } from "../kit/html.js";

/**
 * The lanes by name, side by side; the one on stage is pressed.
 * @param {{player: import("./player.js").LanesPlayer, names: string[]}} props
 */
export const LaneChoice = ({ player, names }) => html`<span
  class="segmented-small runs-choice"
  role="group"
  aria-label=${t("runs.choose")}
>
  ${names.map(
    (name, i) => html`<button
      key=${i}
      id=${`${player.lanes.kind}-lane-${player.lanes.names[i]}`}
      aria-pressed=${player.chosen.value === i}
      title=${t("runs.on_stage", { name })}
      onClick=${() => player.choose(i)}
    >${name}</button>`,
  )}
</span>`;
