// With and without: the same prompt under three strategies, in step. Drawn from the lanes' own logs; the transport is
// the page's.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { raced } from "../../control/tour.js";
import { html } from "../../kit/html.js";
import { Nothing, useLanes } from "../../runs/room.js";
import { isSite } from "../../state/site.js";
import { connection } from "../../state/store.js";
import { t } from "../../tell/words.js";
import { RaceChart } from "./chart.js";
import { Intensity } from "./intensity.js";
import { race } from "./model.js";
import { now, player } from "./player.js";
import { Proof } from "./proof.js";
import { Lanes } from "./table.js";
import { TimeNote } from "./words.js";

export function Panel() {
  const here = connection.value !== "replay" || isSite;
  useLanes(player, here);
  const steps = race.numSteps.value;
  useEffect(() => void (raced.value = steps), [steps]);
  if (!here) return html`<${Nothing} of="race" text=${t("race.replay")} />`;
  const logs = race.logs.value;
  const step = player.shownStep.value;
  return html`<div class="runs race" id="race" data-phase=${race.phase.value} data-step=${step}>
    <${Lanes} logs=${logs} now=${now.value} />
    <${Proof} now=${now.value} />
    <${Intensity} now=${now.value} />
    <${RaceChart} logs=${logs} />
    <${TimeNote} logs=${logs} step=${step} />
  </div>`;
}
