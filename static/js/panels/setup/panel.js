// The left region: prompts and settings.

import { signal } from "../../../vendor/signals/signals.js";
import { rewritten } from "../../control/actions.js";
import { player } from "../../control/player.js";
import { playScene, scene, sceneEnd, scenes } from "../../control/restart.js";
import { inLanguage, langOf, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Select, withValue } from "../../kit/inputs.js";
import { tips } from "../../kit/tooltip.js";
import { PROMPT_BOUNDS } from "../../state/options.js";
import { draft, offeredPrompts, writeDraft } from "../../state/prompts.js";
import { chosenOr } from "../../state/run_settings.js";
import { settings } from "../../state/settings.js";
import { connection, isReplay } from "../../state/store.js";
import { Sequences } from "./sequences.js";
import { CacheSettings, InstanceSettings, NumberField, SamplingSettings, SchedulerSettings } from "./settings.js";

/**
 * Id of the previewed scene, "" for none, or null for the scene that is played.
 * @type {import("../../../vendor/signals/signals.js").Signal<string | null>}
 */
const previewed = signal(null);

export function Panel() {
  const isReplaying = isReplay.value;
  return html`<section class="region setup" aria-labelledby="setup-title" id="region-setup">
    <h2 id="setup-title" class="visually-hidden">${t("region.setup")}</h2>
    ${isReplaying ? null : html`<${Composer} /><${Scenes} />`}
    <${Sequences} />
    ${isReplaying ? null : html`<${CacheSettings} /><${SchedulerSettings} /><${InstanceSettings} />`}
    ${isReplaying ? null : html`<${SamplingSettings} /><${ApplyButton} />`}
  </section>`;
}

/** @param {number | null} n */
const setPriority = (n) => (settings.priority.value = n ?? 0);

/** @param {number | null} n */
const setAfter = (n) => (settings.after.value = n ?? 0);

function Composer() {
  return html`<div class="group composer">
    <div class="prompt-head">
      <label class="group-title" for="prompt">${t("setup.prompt")}</label>
      ${
        rewritten.value
          ? html`<span class="hint num" id="rewritten" role="status" tabindex="0"
        ...${tips([t("setup.rewritten_text")])}>${t("setup.rewritten")}</span>`
          : null
      }
    </div>
    <textarea
      id="prompt"
      rows="2"
      lang=${langOf(draft.value)}
      placeholder=${t("setup.placeholder")}
      value=${draft.value}
      onInput=${withValue(writeDraft)}
    ></textarea>
    <div class="presets" role="group" aria-label=${t("setup.presets")}>
      ${offeredPrompts().map(
        (text) =>
          html`<button class=${draft.value === text ? "preset chosen" : "preset"} title=${text} lang=${langOf(text)}
            onClick=${() => writeDraft(text)}>${text}</button>`,
      )}
    </div>
    <div class="add-row">
      <button class="quiet" id="btn-add" disabled=${!draft.value || !player.value.add}
        onClick=${player.value.add} title=${t("setup.add_hint")}>
        <${Icon} name="add" /> ${t("setup.add")}
      </button>
      <${NumberField} id="after" label=${t("setup.after")} hint=${t("setup.after_hint")} bounds=${PROMPT_BOUNDS.after}
        value=${settings.after.value} commit=${setAfter} />
      ${
        chosenOr("scheduling_policy") === "priority"
          ? html`<${NumberField} id="priority" label=${t("setup.priority")} hint=${t("setup.priority_hint")}
            bounds=${PROMPT_BOUNDS.priority} value=${settings.priority.value} commit=${setPriority} />`
          : null
      }
    </div>
  </div>`;
}

/** The server's scenes: prompts and settings that demonstrate an effect, with a note on what to watch. */
function Scenes() {
  const chosen = scenes.value.find(({ id }) => id === (previewed.value ?? settings.scene.value));
  if (!scenes.value.length) return null;
  const end = chosen === scene.value ? sceneEnd.value : null;
  return html`<div class="group scenes">
    <${Select} id="scene" aria-label=${t("setup.scenes")} value=${chosen?.id}
      choices=${[["", t("setup.scene_none")], ...scenes.value.map((one) => [one.id, inLanguage(one.title)])]}
      commit=${(/** @type {string} */ id) => (previewed.value = id)} />
    ${
      chosen
        ? html`<p class="scene-watch" id="scene-watch">${inLanguage(chosen.watch)}</p>
          ${end ? html`<p class="scene-end" id="scene-end">${end}</p>` : null}
          <button class="apply" id="btn-scene" disabled=${connection.value !== "live"}
            onClick=${() => show(chosen)} title=${t("setup.scene_hint")}>
            ${t("setup.scene_play", { n: inLanguage(chosen.prompts).length })}
          </button>`
        : null
    }
  </div>`;
}

/** @param {import("../../control/restart.js").Scene} chosen */
function show(chosen) {
  previewed.value = null;
  playScene(chosen);
}

/** Apply button at the bottom of the region, shown when the settings differ from the run. */
function ApplyButton() {
  const { differs, restart } = player.value;
  const shown = differs();
  return html`<div class="start-over" data-shown=${shown}>
    <button class="apply" id="btn-apply" disabled=${!shown} onClick=${restart}>${t("setup.apply")}</button>
  </div>`;
}
