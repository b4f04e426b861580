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
  const noTokens = names().map(() => []);
  const aligned = now?.tokens ?? align(noTokens, () => false);
  const after = t("race.prompt", { text: prompt });
  const isFault = aligned.difference && racing.value !== "models";
  return html`<section class="race-proof">
    <h3 class="panel-title">
      <span>${t("race.proof")}</span> <${Fidelity} kind="captured" />
      <span class="race-prompt prompt" title=${prompt} lang=${langOf(prompt)}>${after}</span>
      <span class=${isFault ? "race-verdict differs" : "race-verdict"} id="race-verdict">
        ${agreement(aligned)}
      </span>
    </h3>
    <div class="race-tokens">
      <${LaneNames} names=${names()} /><${TokenColumns} aligned=${aligned} label=${t("race.proof")} />
    </div>
  </section>`;
}

export function Panel() {
  const isAvailable = connection.value !== "replay" || isSite;
  useLanes(player, isAvailable);
  const steps = race.numSteps.value;
  const set = settings.lanes.value;
  const previous = useRef(set);
  useEffect(() => {
    if (previous.current !== set) changeLanes();
    previous.current = set;
  }, [set]);
  useEffect(() => void (raced.value = steps), [steps]);
  useEffect(beginLessons, [lessonRace.value, raceIsDue.value, race.logs.value]);
  if (!isAvailable) return html`<${Nothing} of="race" text=${t("race.replay")} />`;
  const currentLogs = logs.value;
  const step = player.shownStep.value;
  return html`<div class=${`runs race ${racing.value}`} id="race" data-phase=${race.phase.value} data-step=${step}>
    <${LaneTable} logs=${currentLogs} now=${now.value} />
    <${Proof} now=${now.value} />
    <${RaceChart} logs=${currentLogs} />
    ${racing.value === "caches" ? null : html`<${Intensity} now=${now.value} />`}
    <${Note} logs=${currentLogs} step=${step} />
  </div>`;
}
