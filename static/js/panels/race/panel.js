// With and without: the same prompt in several lanes, in step. Drawn from the lanes' own logs; the transport is
// the page's.

import { useEffect, useRef } from "../../../vendor/preact/hooks.js";
import { raced } from "../../control/tour.js";
import { html } from "../../kit/html.js";
import { Nothing, useLanes } from "../../runs/room.js";
import { lessonRace, raceIsDue } from "../../state/lessons.js";
import { settings } from "../../state/settings.js";
import { isSite } from "../../state/site.js";
import { connection } from "../../state/store.js";
import { t } from "../../tell/words.js";
import { RaceChart } from "./chart.js";
import { Intensity } from "./intensity.js";
import { logs, race, racing } from "./model.js";
import { beginLessons, changeLanes, now, player } from "./player.js";
import { Proof } from "./proof.js";
import { Lanes } from "./table.js";
import { Note } from "./words.js";

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
    <${Lanes} logs=${known} now=${now.value} />
    <${Proof} now=${now.value} />
    <${RaceChart} logs=${known} />
    ${racing.value === "caches" ? null : html`<${Intensity} now=${now.value} />`}
    <${Note} logs=${known} step=${step} />
  </div>`;
}
