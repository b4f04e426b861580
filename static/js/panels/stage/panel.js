// The middle region: text, token row with attention row, and provenance chain.

import { useMemo } from "../../../vendor/preact/hooks.js";
import { batch } from "../../../vendor/signals/signals.js";
import { accept, invited } from "../../control/deep_link.js";
import { jumpTo } from "../../control/playback.js";
import { player } from "../../control/player.js";
import { joinText } from "../../core/labels.js";
import { kvShapeOf } from "../../core/shape.js";
import { grouped, langOf, t } from "../../i18n/words.js";
import { usePainter } from "../../kit/canvas.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Icon } from "../../kit/icon.js";
import { Select, withValue } from "../../kit/inputs.js";
import { lazy } from "../../kit/lazy.js";
import { ModelLoading } from "../../kit/model_loading.js";
import { Term } from "../../kit/term.js";
import { textLine } from "../../kit/text_line.js";
import { tips } from "../../kit/tooltip.js";
import { knownHeads } from "../../state/roles.js";
import { settings } from "../../state/settings.js";
import { phase, phasesNow, viewSub } from "../../state/stage_playhead.js";
import {
  bare,
  chain,
  head,
  hovered,
  isLoading,
  layer,
  log,
  ownIsShown,
  selected,
  sequenceView,
  shownSeq,
  showsEarlierRecord,
  stageIndex,
} from "../../state/store.js";
import { TokenRow } from "./token_row.js";
import { done, sampledAt } from "./token_row_columns.js";

/** @import {Children} from "../../kit/html.js" */

const Links = lazy(async () => (await import("./chain_links.js")).Links);

function Chain() {
  const now = chain.value;
  return html`<div class="chain" id="chain" role="region" aria-label=${t("chain.title")}
    data-pinned=${selected.value !== null} onFocusOut=${clearHover}>
    ${now ? html`<${Links} links=${now.links} />` : html`<p class="hint">${t("chain.empty")}</p>`}
  </div>`;
}

/** Clear the hover target when the focus leaves the chain. @param {FocusEvent & {currentTarget: Element}} event */
function clearHover({ currentTarget, relatedTarget }) {
  if (!(relatedTarget instanceof Node && currentTarget.contains(relatedTarget))) hovered.value = null;
}

export function Panel() {
  return html`<section class="region stage" aria-labelledby="stage-title" id="region-stage" tabindex="-1"
    data-bare=${bare.value}>
    <h2 id="stage-title" class="visually-hidden">${t("region.stage")}</h2>
    <${Heading} />
    <${TokenRow} />
    ${invited.value ? html`<${Invitation} />` : null}
    <${Chain} />
  </section>`;
}

function Heading() {
  return html`<div class="stage-head">
    <div class="stage-text" id="stage-text">${shownSeq.value === null ? html`<${Empty} />` : html`<${Text} />`}</div>
    <div class="stage-tools">
      ${
        showsEarlierRecord.value
          ? html`<${EarlierRecordNote} />`
          : bare.value
            ? html`<${NoArraysNote} />`
            : html`<${Scales} />`
      }
      ${bare.value ? null : html`<${LayerHeadSelect} />`}
    </div>
  </div>`;
}

/** Play button over a recording that was just opened. */
const Invitation = () => html`<button class="stage-play" id="stage-play" aria-label=${t("stage.play")}
  title=${t("stage.play")} onClick=${accept}><${Icon} name="play" /></button>`;

function Empty() {
  if (isLoading.value) return html`<${ModelLoading} />`;
  return html`<p class="stage-empty"><b>${t("stage.none")}</b> ${t(
    player.value.prefill ? "stage.none_text" : "stage.none_lesson",
  )}</p>`;
}

/** Prompt and continuation on one line, scrolled to its end. */
function Text() {
  const now = /** @type {import("../../state/store.js").View} */ (sequenceView.value); // rendered only with a view
  const { seq } = now;
  const sampledPosition = sampledAt(now);
  const prompt = useMemo(
    () => joinText(seq.token_bytes.slice(0, seq.num_prompt_tokens)),
    [log.value, seq.seq_id, seq.num_prompt_tokens],
  );
  const end = sampledPosition ?? seq.token_bytes.length;
  const output = useMemo(() => joinText(seq.token_bytes.slice(seq.num_prompt_tokens, end)), [seq.token_bytes, end]);
  const isSampled = sampledPosition !== null && done(viewSub.value, "sample");
  const fullText = isSampled ? joinText(seq.token_bytes.slice(seq.num_prompt_tokens, sampledPosition + 1)) : output;
  const length = commonStart(output, fullText); // a token may complete a character of the previous one
  const sampled = usePainter(
    () => phase("sample"),
    (element) => (element.style.opacity = String(phasesNow().sample)),
  );
  return html`<p class="running-text" tabindex="0" aria-labelledby="stage-title" role="group">
    <span class="running-line">
      <${Swatch} id=${seq.seq_id} /> <span class="prompt" lang=${langOf(prompt)}>${textLine(prompt)}</span
      ><span class="generated" id="generated" lang=${langOf(fullText)}>${textLine(fullText.slice(0, length))}<span
        ref=${sampled}>${textLine(fullText.slice(length))}</span></span>
    </span>
  </p>`;
}

/** @param {string} a @param {string} b */
function commonStart(a, b) {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

/** Note that the sequence on stage has finished, with the record at which it is shown. */
function EarlierRecordNote() {
  const index = stageIndex.value;
  const name = t("sequence.name", { id: shownSeq.value });
  const record = grouped(index + 1);
  return html`<p class="stage-past num" id="stage-past" title=${t("stage.past.why", { name, record })}>
    <span>${t("stage.past", { name })}</span>
    <button class="way" onClick=${() => jumpTo(index)}>${t("stage.past.go", { record })}</button>
  </p>`;
}

/** Note that the log has no arrays. */
function NoArraysNote() {
  const header = log.value?.header;
  const own = header?.engine.private ? "stage.bare_private" : header?.simulated ? "stage.bare_simulated" : "stage.bare";
  return html`<p class="stage-past" id="stage-bare"><span>${t(ownIsShown.value ? own : "stage.bare_lane")}</span></p>`;
}

/** The two colour scales. Each row of the token row states its own range. */
function Scales() {
  return html`<div class="scales num" aria-hidden="true">
    <span>−</span><i class="scale diverging"></i><span>+</span>
    <span class="scale-name">${t("stage.attention")}</span><span>0</span><i class="scale sequential"></i>
    <span class="scale-name"><i class="line prompt"></i>${t("stage.prompt")} <i
      class="line generated"></i>${t("stage.generated")}</span>
  </div>`;
}

/** Choice among the heads with a known role. */
function RoleSelect() {
  const { heads: roles, derived } = knownHeads.value;
  if (!roles.length) return null;
  const shown = roles.findIndex((h) => h.layer === layer.value && h.head === head.value);
  const choose = withValue((index) => {
    const { layer: l, head: h } = roles[Number(index)];
    batch(() => ((settings.layer.value = l), (settings.head.value = h)));
  });
  const { mean_weight, uniform, queries } = roles[Math.max(shown, 0)];
  const figures = { weight: mean_weight.toFixed(2), uniform: uniform.toFixed(2), n: grouped(queries) };
  const tip = () => [t(shown < 0 ? "stage.pattern" : derived ? "stage.pattern_run" : "stage.pattern_tip", figures)];
  return html`<label class="pick patterns" ...${tips(tip)}>
    <span class="visually-hidden">${t("stage.pattern")}</span>
    <select id="pattern" value=${shown} onChange=${choose}>
      ${shown < 0 ? html`<option value="-1" selected disabled>${t("stage.pattern_other")}</option>` : null}
      ${roles.map(
        (h, i) => html`<option value=${i}
        selected=${i === shown}>${t(`stage.pattern.${h.pattern}`)}</option>`,
      )}
    </select>
    ${derived ? html`<${Fidelity} kind="derived" formula=${t("stage.pattern_formula")} />` : null}
  </label>`;
}

/** Choice of the token row's layer and head. */
function LayerHeadSelect() {
  const model = log.value?.header.model;
  const heads = model?.num_heads ?? 1;
  const group = model ? model.num_heads / kvShapeOf(model, layer.value).num_kv_heads : 1;
  /** @type {(id: string, label: string, name: "layer" | "head", value: number, count: number) => Children} */
  const pick = (id, label, name, value, count) => html`<label class="pick">
    <span>${label}</span>
    <${Select} id=${id} value=${value} disabled=${!model} choices=${Array.from({ length: count }, (_, n) => [n, n])}
      commit=${(/** @type {string} */ n) => (settings[name].value = Number(n))} />
  </label>`;
  return html`<div class="choice">
    <${RoleSelect} />
    ${pick(
      "layer",
      t("stage.layer"),
      "layer",
      layer.value,
      model?.num_layers ?? 1,
    )} ${pick("head", t("stage.head"), "head", head.value, heads)}
    <span class="kv-head">→ <${Term} id="gqa">${t("stage.kv_head", { h: Math.floor(head.value / group) })}<//></span>
  </div>`;
}
