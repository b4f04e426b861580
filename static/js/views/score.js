// The left region: what is asked of the model, and under which settings.

import { langOf, t } from "../i18n/index.js";
import { addPrompt, applyConfig, changeConfig, configDiffers, draft, rewritten } from "../model/actions.js";
import { PRESETS } from "../model/presets.js";
import { settings } from "../model/settings.js";
import { connection, log, modelFacts } from "../model/store.js";
import { html } from "./html.js";
import { Sequences } from "./sequences.js";
import { Icon, Term, tips } from "./words.js";

export function Score() {
  const replay = connection.value === "replay";
  return html`<section class="region score" aria-labelledby="score-title" id="region-score">
    <h2 id="score-title" class="visually-hidden">${t("region.score")}</h2>
    ${replay ? null : html`<${Composer} />`}
    <${Sequences} />
    ${replay ? null : html`<${CacheSettings} /><${SamplingSettings} />`}
  </section>`;
}

function Composer() {
  return html`<div class="group composer">
    <div class="prompt-head">
      <label class="group-title" for="prompt">${t("score.prompt")}</label>
      ${rewritten.value ? html`<span class="hint num" id="rewritten" role="status" tabindex="0" ...${tips([t("score.rewritten_text")])}>${t("score.rewritten")}</span>` : null}
    </div>
    <textarea
      id="prompt"
      rows="2"
      lang=${langOf(draft.value)}
      placeholder=${t("score.placeholder")}
      value=${draft.value}
      onInput=${(event) => (draft.value = event.currentTarget.value)}
    ></textarea>
    <div class="presets" role="group" aria-label=${t("score.presets")}>
      ${presetTexts().map(
        (text) => html`<button class=${draft.value === text ? "preset chosen" : "preset"} title=${text} lang=${langOf(text)} onClick=${() => (draft.value = text)}>${text}</button>`,
      )}
    </div>
    <button class="quiet" id="btn-add" disabled=${!draft.value} onClick=${addPrompt} title=${t("score.add_hint")}>
      <${Icon} name="add" /> ${t("score.add")}
    </button>
  </div>`;
}

/** The page's own, then the server's single prompts. */
function presetTexts() {
  const offered = (modelFacts.value?.presets ?? []).filter((p) => p.prompts.length === 1).map((p) => p.prompts[0]);
  return [...new Set([...PRESETS, ...offered.filter((text) => text.length < 60)])].slice(0, 6);
}

function CacheSettings() {
  const strategy = settings.strategy.value;
  const sizes = [1, 2, 4, 8, 16, 32];
  return html`<div class="group">
    <h3 class="group-title">${t("score.cache")}</h3>
    <div class="segments" role="radiogroup" aria-label=${t("score.strategy")} id="strategy">
      ${["paged", "contiguous", "none"].map(
        (name) => html`<button
          role="radio"
          aria-checked=${strategy === name}
          data-strategy=${name}
          class=${strategy === name ? "segment chosen" : "segment"}
          onClick=${() => changeConfig("strategy", name)}
        >
          ${t(`strategy.${name}`)}
        </button>`,
      )}
    </div>
    <p class="hint two-lines">${t(`strategy.${strategy}.text`)}</p>
    <div class="fields">
      <label class="field">
        <span><${Term} id="block">${t("score.block_size")}<//></span>
        <select
          id="block-size"
          disabled=${strategy === "contiguous"}
          value=${settings.block_size.value}
          onChange=${(event) => changeConfig("block_size", Number(event.currentTarget.value))}
        >
          ${[...new Set([...sizes, settings.block_size.value])].sort((a, b) => a - b).map(
            (n) => html`<option value=${n} selected=${n === settings.block_size.value}>${n}</option>`,
          )}
        </select>
      </label>
      <${NumberField} id="num-blocks" label=${t("score.num_blocks")} name="num_blocks" min="1" max="4096" step="1" onCommit=${changeConfig} />
    </div>
    <button class="apply" id="btn-apply" onClick=${applyConfig} data-shown=${configDiffers() && log.value?.length > 0}>
      ${t("score.apply")}
    </button>
  </div>`;
}

function SamplingSettings() {
  return html`<details class="group" open=${innerHeight >= 860}>
    <summary class="group-title">${t("score.sampling")}</summary>
    <div class="fields">
      <${NumberField} id="temperature" label=${t("score.temperature")} hint=${t("score.greedy")} name="temperature" step="0.1" />
      <${NumberField} id="max-tokens" label=${t("score.max_tokens")} name="max_tokens" step="1" />
      <${NumberField} id="top-k" label=${t("score.top_k")} name="top_k" step="1" />
      <${NumberField} id="top-p" label=${t("score.top_p")} name="top_p" step="0.05" />
      <${NumberField} id="min-p" label=${t("score.min_p")} name="min_p" step="0.05" />
      <${NumberField} id="repetition-penalty" label=${t("score.repetition_penalty")} hint=${t("score.repetition_hint")} name="repetition_penalty" step="0.05" />
      <${NumberField} id="seed" label=${t("score.seed")} name="seed" step="1" optional=${true} />
      <label class="field" title=${t("score.stop_hint")}>
        <span>${t("score.stop")}</span>
        <input id="stop" type="text" value=${settings.stop.value} onChange=${(event) => (settings.stop.value = event.currentTarget.value)} />
      </label>
    </div>
  </details>`;
}

/** A number of the settings. Without `min` and `max` the server says what is out of range, in a sentence. */
function NumberField({ id, label, hint, name, min, max, step, optional, onCommit }) {
  const commit = (event) => {
    const value = event.currentTarget.valueAsNumber;
    const fits = min === undefined ? Number.isFinite(value) && (step !== "1" || Number.isInteger(value)) : event.currentTarget.checkValidity();
    if (optional && event.currentTarget.value === "") settings[name].value = null;
    else if (!fits || !Number.isFinite(value)) event.currentTarget.value = settings[name].value;
    else if (onCommit) onCommit(name, value);
    else settings[name].value = value;
  };
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <input id=${id} type="number" inputmode="decimal" min=${min} max=${max} step=${step} placeholder=${optional ? t("score.seed_auto") : ""} value=${settings[name].value ?? ""} onChange=${commit} />
  </label>`;
}
