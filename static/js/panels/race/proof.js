// The proof that a cache changes no token: what each lane chose, place by place.

import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { LaneNames, TokenColumns } from "../../runs/columns.js";
import { align } from "../../runs/tokens.js";
import { draft } from "../../state/prompts.js";
import { langOf, t } from "../../tell/words.js";
import { names, race, racing } from "./model.js";
import { agreement } from "./words.js";

/** @param {{now: import("./figures.js").Race | null}} props */
export function Proof({ now }) {
  const prompt = race.asked.value?.prompts[0] ?? draft.value;
  const nothing = names().map(() => []);
  const aligned = now?.tokens ?? align(nothing, () => false);
  const after = t("race.prompt", { text: prompt });
  const wrong = aligned.difference && racing.value !== "models";
  return html`<section class="race-proof">
    <h3 class="panel-title">
      <span>${t("race.proof")}</span> <${Fidelity} kind="captured" />
      <span class="race-prompt prompt" title=${prompt} lang=${langOf(prompt)}>${after}</span>
      <span class=${wrong ? "race-verdict differs" : "race-verdict"} id="race-verdict">
        ${agreement(aligned)}
      </span>
    </h3>
    <div class="race-tokens">
      <${LaneNames} names=${names()} /><${TokenColumns} aligned=${aligned} label=${t("race.proof")} />
    </div>
  </section>`;
}
