// The fault museum: exhibits, and the chosen one as two runs in lockstep, a healthy one and one with the fault. Drawn from the
// two logs; the fault is the engine's.

import { html } from "../../kit/html.js";
import { LockstepControls, useLanes } from "../../runs/lockstep_controls.js";
import { markPlace, settings } from "../../state/settings.js";
import { connection, exhibits, modelFacts } from "../../state/store.js";
import { inLanguage, langOf, t } from "../../tell/words.js";
import { Facts } from "./facts.js";
import { exhibit, LANES, lanes, openOnStage, scene, wish } from "./model.js";
import { Notices } from "./notices.js";
import { Arrays } from "./pictures.js";
import { Texts } from "./texts.js";
import { museumSentence } from "./words.js";

export function Panel() {
  useLanes(lanes);
  if (connection.value === "replay")
    return html`<p class="race-nothing hint" id="museum-nothing">${t("museum.replay")}</p>`;
  if (!exhibits.value.length)
    return html`<p class="race-nothing hint" id="museum-nothing">${t(modelFacts.value ? "museum.none" : "museum.waking")}</p>`;
  const now = scene.value;
  const running = lanes.phase.value === "running";
  return html`<div class="museum" id="museum" data-phase=${lanes.phase.value} data-step=${lanes.shownStep.value} data-exhibit=${exhibit.value?.id ?? ""}>
    <${List} />
    ${
      exhibit.value
        ? html`<${Label} shown=${exhibit.value} />
          <div class="museum-bar">
            <${LockstepControls} lanes=${lanes} wish=${wish} />
            <p class="museum-sentence" id="museum-sentence" aria-live=${running ? "off" : "polite"}>${museumSentence(now, lanes)}</p>
          </div>
          ${now ? html`<div class="museum-evidence"><${Notices} now=${now} /><${Facts} now=${now} /><${Texts} now=${now} /><${Arrays} now=${now} /></div>` : null}`
        : html`<p class="museum-choose hint">${t("museum.choose")}</p>`
    }
  </div>`;
}

function List() {
  return html`<div class="museum-list" role="group" aria-label=${t("museum.list")}>
    ${exhibits.value.map(
      (one, i) => html`<button
        key=${one.id}
        class="museum-exhibit"
        id=${`exhibit-${one.id}`}
        aria-pressed=${one === exhibit.value}
        onClick=${() => show(one.id)}
      >
        <span class="museum-number num" aria-hidden="true">${i + 1}</span>${inLanguage(one.title)}
      </button>`,
    )}
  </div>`;
}

function show(id) {
  markPlace();
  settings.exhibit.value = id;
}

/** What is wrong and what to watch, in the server's words, and what both runs are asked. */
function Label({ shown }) {
  const { block_size: size, num_blocks: blocks, max_num_seqs: seqs, max_num_batched_tokens: budget } = shown.config;
  return html`<div class="museum-label">
    <p class="museum-wrong" id="museum-wrong"><span aria-hidden="true">⚠\uFE0E </span>${inLanguage(shown.text)}</p>
    <p id="museum-watch"><b>${t("museum.watch")}</b> ${inLanguage(shown.watch)}</p>
    <p class="hint" id="museum-asked">
      <span lang=${langOf(shown.prompts[0])}>${t("museum.asked", { n: shown.prompts.length, prompts: shown.prompts.join(" / ") })}</span> · ${t("museum.setting", { size, blocks, seqs, budget })}
    </p>
    <${OpenOnStage} />
  </div>`;
}

function OpenOnStage() {
  const off = connection.value !== "live" || lanes.phase.value === "opening";
  return html`<div class="museum-open" role="group" aria-label=${t("museum.open")} title=${t("museum.open.more")}>
    <span>${t("museum.open")}</span>
    ${LANES.map((lane) => html`<button class="command" id=${`museum-open-${lane}`} disabled=${off} title=${t("museum.open.more")} onClick=${() => openOnStage(lane)}>${t(`museum.${lane}`)}</button>`)}
  </div>`;
}
