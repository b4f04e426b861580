// The proof that a cache changes no token: what each lane chose, place by place.

import { useEffect, useRef } from "../../../vendor/preact/hooks.js";
import { racePrompt } from "../../control/actions.js";
import { labelText, tokenLabels } from "../../core/labels.js";
import { html } from "../../kit/html.js";
import { Fidelity } from "../../kit/parts.js";
import { langOf, t } from "../../tell/words.js";
import { race, STRATEGIES } from "./model.js";
import { choices } from "./words.js";

const MOST = 160; // columns kept in the document; the first difference is named in words wherever it is

export function Proof({ now }) {
  const ref = useRef(null);
  const prompt = race.asked.value?.prompts[0] ?? racePrompt();
  const count = now ? Math.max(...now.lanes.map((lane) => lane.tokenIds.length)) : 0;
  useEffect(() => {
    if (ref.current) ref.current.scrollLeft = ref.current.scrollWidth; // the newest is what one looks for
  }, [count]);
  const labels = now?.lanes.map((lane) => tokenLabels(lane.tokenBytes).map(labelText)) ?? [[], [], []];
  const from = Math.max(0, count - MOST);
  return html`<section class="race-proof">
    <h3 class="panel-title">
      <span>${t("race.proof")}</span> <${Fidelity} kind="captured" />
      <span class="race-prompt prompt" title=${prompt} lang=${langOf(prompt)}>${t("race.prompt", { text: prompt })}</span>
      <span class=${now?.difference != null ? "race-verdict differs" : "race-verdict"} id="race-verdict">${verdict(now)}</span>
    </h3>
    <div class="race-tokens">
      <div class="race-names" aria-hidden="true">${STRATEGIES.map((name) => html`<span>${t(`race.${name}`)}</span>`)}</div>
      <div class="race-columns" ref=${ref} tabindex="0" data-arrows role="group" aria-label=${t("race.proof")}>
        ${Array.from({ length: count - from }, (_, k) => {
          const place = from + k;
          const chosen = labels.map((lane) => lane[place] ?? "");
          const complete = now.lanes.every((lane) => place < lane.tokenIds.length);
          const same =
            now.difference === null ||
            place < now.difference ||
            now.lanes.every((lane) => lane.tokenIds[place] === now.lanes[0].tokenIds[place]);
          return html`<span class=${same ? "race-column" : "race-column differs"} key=${place}>
            ${chosen.map((label) => html`<span class="generated">${label || "\u00a0"}</span>`)}<span class="race-mark">${!same ? "≠" : complete ? "=" : "\u00a0"}</span>
          </span>`;
        })}
      </div>
    </div>
  </section>`;
}

function verdict(now) {
  if (!now || now.lanes.every((lane) => lane.tokenIds.length === 0)) return t("race.proof.none");
  if (now.difference === null) return t("race.proof.same", { n: now.same });
  return t("race.proof.differs", { place: now.difference + 1, choices: choices(now.lanes, now.difference) });
}
