// Comparison of strategies: the same prompt in several lanes in lockstep, drawn from the lanes' own logs and driven by
// the page's transport.

import { useEffect, useRef } from "../../../vendor/preact/hooks.js";
import { raced } from "../../control/tour.js";
import { langOf, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { LaneNames, Nothing, TokenColumns, useLanes } from "../../runs/side_by_side.js";
import { align } from "../../runs/tokens.js";
import { lessonRace, raceIsDue } from "../../state/lessons.js";
import { draft } from "../../state/prompts.js";
import { settings } from "../../state/settings.js";
import { connection } from "../../state/store.js";
import { isSite } from "../../state/without_server.js";
import { RaceChart } from "./chart.js";
import { Intensity } from "./intensity.js";
import { logs, names, race, racing } from "./model.js";
import { beginLessons, changeLanes, now, player } from "./player.js";
import { LaneTable } from "./table.js";
import { agreement, Note } from "./words.js";

/** @param {{now: import("./figures.js").Race | null}} props */
function Proof({ now }) {
  const prompt = race.spec.value?.prompts[0] ?? draft.value;
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

export function Panel() {
  const here = connection.value !== "replay" || isSite;
  useLanes(player, here);
  const steps = race.numSteps.value;
  const set = settings.lanes.value;
  const before = useRef(set);
  useEffect(() => {
    if (before.current !== set) changeLanes();
    before.current = set;
  }, [set]);
  useEffect(() => void (raced.value = steps), [steps]);
  useEffect(beginLessons, [lessonRace.value, raceIsDue.value, race.logs.value]);
  if (!here) return html`<${Nothing} of="race" text=${t("race.replay")} />`;
  const known = logs.value;
  const step = player.shownStep.value;
  return html`<div class=${`runs race ${racing.value}`} id="race" data-phase=${race.phase.value} data-step=${step}>
    <${LaneTable} logs=${known} now=${now.value} />
    <${Proof} now=${now.value} />
    <${RaceChart} logs=${known} />
    ${racing.value === "caches" ? null : html`<${Intensity} now=${now.value} />`}
    <${Note} logs=${known} step=${step} />
  </div>`;
}
