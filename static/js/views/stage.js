// The middle region: the text, the strip with its attention row, and the provenance chain.

import { langOf, t } from "../i18n/index.js";
import { settings } from "../model/settings.js";
import { head, layer, log, shownSeq, stage } from "../model/store.js";
import { joinText, visible } from "../trace/labels.js";
import { Chain } from "./chain.js";
import { html } from "./html.js";
import { Strip } from "./strip.js";
import { Swatch, Term } from "./words.js";

export function Stage() {
  return html`<section class="region stage" aria-labelledby="stage-title" id="region-stage" tabindex="-1">
    <h2 id="stage-title" class="visually-hidden">${t("region.stage")}</h2>
    <${Heading} />
    <${Strip} />
    <${Chain} />
  </section>`;
}

function Heading() {
  return html`<div class="stage-head">
    <div class="stage-text" id="stage-text" role="group" aria-labelledby="stage-title" tabindex="0">${shownSeq.value === null ? html`<${Empty} />` : html`<${Text} />`}</div>
    <div class="stage-tools"><${Scales} /><${Choice} /></div>
  </div>`;
}

function Empty() {
  return html`<p class="stage-empty"><b>${t("stage.none")}</b> ${t("stage.none_text")}</p>`;
}

/** Prompt and continuation; the end stays in sight. */
function Text() {
  const { seq } = stage.value;
  const prompt = joinText(seq.token_bytes.slice(0, seq.num_prompt_tokens));
  const output = joinText(seq.token_bytes.slice(seq.num_prompt_tokens));
  const lines = output.split("\n");
  return html`<p class="running-text" ref=${(p) => p && (p.parentElement.scrollTop = p.parentElement.scrollHeight)}>
    <${Swatch} id=${seq.seq_id} /> <span class="prompt" lang=${langOf(prompt)}>${prompt}</span
    ><span class="generated" id="generated" lang=${langOf(output)}>${lines.map((line, i) => (i ? html`<span class="newline">${visible("\n")}</span>${line}` : line))}</span>
  </p>`;
}

/** The two scales of values; each row says its own range. */
function Scales() {
  return html`<div class="scales num" aria-hidden="true">
    <span>−</span><i class="scale diverging"></i><span>+</span>
    <span class="scale-name">${t("stage.attention")}</span><span>0</span><i class="scale sequential"></i>
    <span class="scale-name"><i class="line prompt"></i>${t("stage.prompt")} <i class="line generated"></i>${t("stage.generated")}</span>
  </div>`;
}

/** Which layer and head the strip shows. */
function Choice() {
  const model = log.value?.header.model;
  const heads = model?.num_heads ?? 1;
  const group = model ? model.num_heads / model.num_kv_heads : 1;
  const pick = (id, label, name, value, count) => html`<label class="pick">
    <span>${label}</span>
    <select id=${id} value=${value} disabled=${!model} onChange=${(event) => (settings[name].value = Number(event.currentTarget.value))}>
      ${Array.from({ length: count }, (_, n) => html`<option value=${n} selected=${n === value}>${n}</option>`)}
    </select>
  </label>`;
  return html`<div class="choice">
    ${pick("layer", t("stage.layer"), "layer", layer.value, model?.num_layers ?? 1)} ${pick("head", t("stage.head"), "head", head.value, heads)}
    <span class="kv-head">→ <${Term} id="gqa">${t("stage.kv_head", { h: Math.floor(head.value / group) })}<//></span>
  </div>`;
}
