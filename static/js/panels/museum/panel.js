// The fault museum: a list of exhibits, and the chosen one as a healthy and a faulty run in lockstep, drawn from their
// two logs. The fault is in the engine.

import { sequenceName } from "../../i18n/operations.js";
import { inLanguage, langOf, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { LaneNames, Nothing, TokenColumns, useLanes } from "../../runs/side_by_side.js";
import { verdict } from "../../runs/words.js";
import { markPlace, settings } from "../../state/settings.js";
import { connection, exhibits, modelFacts } from "../../state/store.js";
import { isSite } from "../../state/without_server.js";
import { Facts } from "./facts.js";
import { chosenSeq, exhibit, follow, lanes, names, player, scene } from "./model.js";
import { Notices } from "./notices.js";
import { Arrays } from "./pictures.js";

/** @import {Scene} from "./model.js" */

/** @param {{now: Scene}} props */
function Texts({ now }) {
  return html`<section class="museum-texts">
    <h3 class="panel-title">${t("museum.texts")} <${Fidelity} kind="captured" /></h3>
    ${now.seqs.map(
      (seq) => html`<${Text} key=${seq.seq_id} seq=${seq} step=${now.step} shown=${seq.seq_id === now.seq} />`,
    )}
  </section>`;
}

/** @param {{seq: Scene["seqs"][number], step: number, shown: boolean}} props */
function Text({ seq, step, shown }) {
  const { seq_id: id, lanes, difference } = seq;
  const name = sequenceName(id);
  const count = Math.max(...lanes.map((lane) => lane.length));
  const label = t("museum.texts.label", { name, count, verdict: verdict(names(), seq) });
  const show = () => (chosenSeq.value = id);
  return html`<div class="museum-text" data-seq=${id} data-differs=${difference?.place ?? ""}>
    <button class="museum-seq" aria-pressed=${shown} title=${t("museum.texts.show")} onClick=${show}>
      <${Swatch} id=${id} />${name}
    </button>
    <${LaneNames} names=${names()} /><${TokenColumns} aligned=${seq} label=${label} newest=${step} />
  </div>`;
}

/** @typedef {import("../../core/wire.js").ModelAnswer["museum"][number]} Exhibit */

export function Panel() {
  const isAvailable = connection.value !== "replay" || isSite;
  useLanes(player, isAvailable && exhibit.value !== null);
  if (!isAvailable) return html`<${Nothing} of="museum" text=${t("museum.replay")} />`;
  const all = /** @type {Exhibit[]} */ (exhibits.value);
  if (!all.length)
    return html`<${Nothing} of="museum" text=${t(modelFacts.value ? "museum.none" : "museum.waking")} />`;
  const [shown, now] = [exhibit.value, scene.value];
  return html`<div
    class="runs museum"
    id="museum"
    data-phase=${lanes.phase.value}
    data-step=${player.shownStep.value}
    data-exhibit=${shown?.id ?? ""}
  >
    <div class="museum-head">
      <${ExhibitList} all=${all} shown=${shown} />
      ${shown ? html`<${LaneChoice} player=${player} names=${names()} />` : null}
    </div>
    ${shown ? html`<${ExhibitText} shown=${shown} />` : html`<p class="museum-choose hint">${t("museum.choose")}</p>`}
    ${
      shown && now
        ? html`<div class="museum-evidence">
          <${Notices} now=${now} /><${Arrays} now=${now} /><${Facts} now=${now} /><${Texts} now=${now} />
        </div>`
        : null
    }
    ${shown ? html`<${ExhibitRequest} shown=${shown} />` : null}
  </div>`;
}

/** @param {{all: Exhibit[], shown: Exhibit | null}} props */
function ExhibitList({ all, shown }) {
  return html`<div class="museum-list" role="group" aria-label=${t("museum.list")}>
    ${all.map(
      (one, i) => html`<button
        key=${one.id}
        class="museum-exhibit"
        id=${`exhibit-${one.id}`}
        aria-pressed=${one === shown}
        title=${inLanguage(one.title)}
        onClick=${() => show(one.id)}
      >
        <span class="museum-number num" aria-hidden="true">${i + 1}</span
        ><span class="museum-title">${inLanguage(one.title)}</span>
      </button>`,
    )}
  </div>`;
}

/** @param {Exhibit["id"]} id */
function show(id) {
  markPlace();
  settings.exhibit.value = id;
}

/** Request of both runs, and a button that opens a run like the one on stage. @param {{shown: Exhibit}} props */
function ExhibitRequest({ shown }) {
  const isDisabled = connection.value !== "live" || lanes.phase.value === "opening";
  const { block_size: size, num_blocks: blocks, max_num_seqs: seqs, max_num_batched_tokens: budget } = shown.config;
  const prompts = inLanguage(shown.prompts);
  const text = t("museum.asked", { n: prompts.length, prompts: prompts.join(" / ") });
  return html`<p class="hint museum-asked" id="museum-asked">
    <span lang=${langOf(prompts[0])}>${text}</span> · ${t("museum.setting", { size, blocks, seqs, budget })} ·${" "}
    <button class="runs-go" id="museum-open" disabled=${isDisabled} title=${t("museum.open.more")}
      onClick=${() => follow(shown)}>${t("museum.open")}</button>
  </p>`;
}

/** Description of the fault and what to watch, in the server's words. @param {{shown: Exhibit}} props */
function ExhibitText({ shown }) {
  return html`<div class="museum-label">
    <p class="museum-wrong" id="museum-wrong"><span aria-hidden="true">⚠\uFE0E </span>${inLanguage(shown.text)}</p>
    <p id="museum-watch"><b>${t("museum.watch")}</b> ${inLanguage(shown.watch)}</p>
  </div>`;
}

/**
 * Choice of the lane shown on stage and in the memory region.
 * @param {{player: import("../../runs/player.js").LanesPlayer, names: string[]}} props
 */
const LaneChoice = ({ player, names }) => html`<span
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
