// Settings of a run: how the cache is laid out, how steps are put together, how tokens are chosen.

import { changeConfig } from "../../control/actions.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/parts.js";
import { Typed } from "../../kit/typed.js";
import { applies, chosenOr, defaultOf, hasSampling, KV_DTYPES } from "../../state/run_settings.js";
import { settings } from "../../state/settings.js";
import { t } from "../../tell/words.js";

const BLOCK_SIZES = [1, 2, 4, 8, 16, 32];
const PATTERNS = [0, 2, 3, 4, 6]; // 0 = no layer is left without the window
const WINDOWS = [0, 8, 16, 32, 64, 128, 256, 512]; // 0 = none

export function CacheSettings() {
  const strategy = settings.strategy.value;
  return html`<div class="group">
    <h3 class="group-title">${t("score.cache")}</h3>
    <div class="segments" role="radiogroup" aria-label=${t("score.strategy")} id="strategy" data-arrows onKeyDown=${moveStrategy}>
      ${["paged", "contiguous", "none"].map(
        (name) => html`<button
          role="radio"
          aria-checked=${strategy === name}
          tabindex=${strategy === name ? 0 : -1}
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
      <${Choice}
        id="block-size"
        name="block_size"
        label=${html`<${Term} id="block">${t("score.block_size")}<//>`}
        choices=${withChosen(BLOCK_SIZES, settings.block_size.value)}
        read=${Number}
      />
      <${NumberField} id="num-blocks" label=${t("score.num_blocks")} name="num_blocks" min="1" max="4096" step="1" onCommit=${changeConfig} />
      <${Choice} id="kv-cache-dtype" name="kv_cache_dtype" label=${t("score.kv_cache_dtype")} choices=${KV_DTYPES} hint=${t("score.kv_cache_dtype_hint")} />
      <${Choice}
        id="attention-window"
        name="attention_window"
        label=${html`<${Term} id="sliding_window">${t("score.attention_window")}<//>`}
        hint=${t("score.attention_window_hint")}
        choices=${withChosen(WINDOWS, chosenOr("attention_window") ?? 0)}
        read=${Number}
        text=${(n) => (n === 0 ? t("score.no_window") : n)}
      />
      ${applies("attention_sinks") ? html`<${NumberField} id="attention-sinks" label=${t("score.attention_sinks")} hint=${t("score.attention_sinks_hint")} name="attention_sinks" min="0" max="1024" step="1" onCommit=${changeConfig} />` : null}
      ${
        applies("sliding_window_pattern")
          ? html`<${Choice}
            id="sliding-window-pattern"
            name="sliding_window_pattern"
            label=${html`<${Term} id="block_group">${t("score.sliding_window_pattern")}<//>`}
            hint=${t("score.sliding_window_pattern_hint")}
            choices=${withChosen(PATTERNS, chosenOr("sliding_window_pattern") ?? 0)}
            read=${Number}
            text=${(n) => t(n === 0 ? "score.no_pattern" : "score.every_layer", { n })}
          />`
          : null
      }
      <${Switch} id="prefix-caching" name="enable_prefix_caching" label=${html`<${Term} id="prefix_cache">${t("score.prefix_caching")}<//>`} />
    </div>
  </div>`;
}

const withChosen = (usual, value) => [...new Set([...usual, value])].sort((a, b) => a - b);

/** Arrow keys move between the strategies, as in any group of radio buttons. */
function moveStrategy(event) {
  const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const names = ["paged", "contiguous", "none"];
  const next = names[(names.indexOf(settings.strategy.value) + by + names.length) % names.length];
  changeConfig("strategy", next);
  event.currentTarget.querySelector(`[data-strategy="${next}"]`).focus();
}

export function SchedulerSettings() {
  return html`<details class="group" id="scheduler">
    <summary class="group-title">${t("score.scheduler")}<span class="summary-values num">${schedulerValues()}</span></summary>
    <div class="fields">
      <${NumberField} id="max-num-seqs" label=${t("score.max_num_seqs")} name="max_num_seqs" min="1" max="1024" step="1" onCommit=${changeConfig} />
      <${NumberField}
        id="max-num-batched-tokens"
        label=${t("score.max_num_batched_tokens")}
        hint=${t("score.max_num_batched_tokens_hint")}
        name="max_num_batched_tokens"
        min="1"
        max="16384"
        step="1"
        onCommit=${changeConfig}
      />
      <${Choice} id="scheduling-policy" name="scheduling_policy" label=${t("score.scheduling_policy")} choices=${["fcfs", "priority"]} hint=${t("score.scheduling_policy_hint")} />
      ${
        defaultOf("preemption_mode") === undefined
          ? null
          : html`<${Choice} id="preemption-mode" name="preemption_mode" label=${html`<${Term} id="preempt">${t("score.preemption_mode")}<//>`} choices=${["recompute", "swap"]} />`
      }
      <${Switch} id="chunked-prefill" name="enable_chunked_prefill" label=${t("score.chunked_prefill")} hint=${t("score.chunked_prefill_hint")} />
    </div>
  </details>`;
}

/** What holds, in short, so that it can be seen without opening. */
function schedulerValues() {
  const [seqs, tokens] = ["max_num_seqs", "max_num_batched_tokens"].map(chosenOr);
  return seqs === null ? "" : t("score.scheduler_values", { seqs, tokens });
}

export function SamplingSettings() {
  return html`<details class="group" id="sampling" open=${innerHeight >= 1000}>
    <summary class="group-title">${t("score.sampling")}<span class="summary-values num">${samplingValues()}</span></summary>
    <div class="fields">
      <${NumberField} id="temperature" label=${t("score.temperature")} hint=${t("score.greedy")} name="temperature" step="0.1" />
      <${NumberField} id="max-tokens" label=${t("score.max_tokens")} name="max_tokens" step="1" />
      <${NumberField} id="top-k" label=${t("score.top_k")} hint=${t("score.off_at", { value: 0 })} name="top_k" step="1" />
      <${NumberField} id="top-p" label=${t("score.top_p")} hint=${t("score.off_at", { value: 1 })} name="top_p" step="0.05" />
      <${NumberField} id="min-p" label=${t("score.min_p")} hint=${t("score.off_at", { value: 0 })} name="min_p" step="0.05" />
      <${NumberField} id="repetition-penalty" label=${t("score.repetition_penalty")} hint=${t("score.repetition_hint")} name="repetition_penalty" step="0.05" />
      <${NumberField} id="seed" label=${t("score.seed")} name="seed" step="1" optional=${true} />
      ${hasSampling("n") ? html`<${NumberField} id="n" label=${t("score.n")} hint=${t("score.n_hint")} name="n" min="1" max="16" step="1" />` : null}
      <label class="field" title=${t("score.stop_hint")}>
        <span>${t("score.stop")}</span>
        <${Typed} id="stop" type="text" value=${settings.stop.value} onChange=${(event) => (settings.stop.value = event.currentTarget.value)} />
      </label>
      <label class="field switch" title=${t("score.ignore_eos_hint")}>
        <input id="ignore-eos" type="checkbox" checked=${settings.ignore_eos.value} onChange=${(event) => (settings.ignore_eos.value = event.currentTarget.checked)} />
        <span>${t("score.ignore_eos")}</span>
      </label>
    </div>
  </details>`;
}

function samplingValues() {
  const temperature = settings.temperature.value;
  const kind = temperature === 0 ? t("score.greedy_short") : `T ${temperature}`;
  return t("score.sampling_values", { kind, n: settings.max_tokens.value });
}

/** One of a few values of an engine setting. */
function Choice({ id, name, label, choices, hint, read = String, text = String }) {
  const value = chosenOr(name);
  const usual = defaultOf(name);
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <select id=${id} disabled=${!applies(name)} onChange=${(event) => changeConfig(name, read(event.currentTarget.value))}>
      ${choices.map((choice) => html`<option value=${choice} selected=${choice === (value ?? 0)}>${text(choice)}</option>`)}
    </select>
    <${Usual} name=${name} value=${value} usual=${usual} />
  </label>`;
}

/** An engine setting that is on or off. */
function Switch({ id, name, label, hint }) {
  const possible = applies(name);
  return html`<label class="field switch" title=${hint}>
    <input id=${id} type="checkbox" disabled=${!possible} checked=${possible && chosenOr(name)} onChange=${(event) => changeConfig(name, event.currentTarget.checked)} />
    <span>${label}</span>
  </label>`;
}

/** What the server would do by itself, when something else is chosen. */
function Usual({ name, value, usual }) {
  if (usual === undefined || usual === null || value === usual || ["block_size", "num_blocks"].includes(name))
    return null;
  return html`<small class="usual num">${t("score.usual", { value: usual })}</small>`;
}

/** A number of the settings. Without `min` and `max` the server says what is out of range, in a sentence. */
export function NumberField({ id, label, hint, name, min, max, step, optional, onCommit }) {
  const now = onCommit ? chosenOr(name) : settings[name].value;
  const commit = (event) => {
    const value = event.currentTarget.valueAsNumber;
    const fits =
      min === undefined
        ? Number.isFinite(value) && (step !== "1" || Number.isInteger(value))
        : event.currentTarget.checkValidity();
    if (optional && event.currentTarget.value === "") settings[name].value = null;
    else if (!fits || !Number.isFinite(value)) event.currentTarget.value = now;
    else if (onCommit) onCommit(name, value);
    else settings[name].value = value;
  };
  return html`<label class="field" title=${hint}>
    <span>${label}</span>
    <${Typed}
      id=${id}
      type="number"
      inputmode="decimal"
      min=${min}
      max=${max}
      step=${step}
      placeholder=${optional ? t("score.seed_auto") : ""}
      disabled=${onCommit && !applies(name) && name !== "num_blocks"}
      value=${now ?? ""}
      onChange=${commit}
    />
    ${onCommit ? html`<${Usual} name=${name} value=${now} usual=${defaultOf(name)} />` : null}
  </label>`;
}
