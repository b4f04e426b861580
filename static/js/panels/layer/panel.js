// Layer at the newest or pinned position: the contributions of attention and feed-forward to the residual stream,
// their cost, and each layer's prediction of the next token (the logit lens).

import { useEffect } from "../../../vendor/preact/hooks.js";
import { canFork, fork, problem, progress } from "../../control/fork.js";
import { labelText, loneLabel } from "../../core/labels.js";
import { offText } from "../../i18n/options.js";
import { countText, langOf, percentText, probabilityText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { moveFocusAmong } from "../../kit/focus.js";
import { html } from "../../kit/html.js";
import { useBox } from "../../kit/measure.js";
import { tips } from "../../kit/tooltip.js";
import { useEnlargedWhereLow } from "../../runs/side_by_side.js";
import { settings } from "../../state/settings.js";
import { answeredKey, nextToken, requestSoon, shown, wanted } from "./model.js";
import { Picture } from "./picture.js";
import { Product, shownPart } from "./product.js";

/** @import {Candidate} from "../../core/trace.js" */
/** @import {Found} from "./model.js" */

const PHONE_WIDTH = 560; // px of width
const THREE_FROM = 400; // minimum px of height for three tokens per layer

export function Panel() {
  useEnlargedWhereLow();
  const { found, problem, stale } = shown.value;
  const key = wanted.value.wanted?.key;
  const answered = answeredKey.value;
  useEffect(() => (key && key !== answered ? requestSoon() : undefined), [key, answered]);
  const [box, { width, height }] = useBox();
  const showsThree = height >= THREE_FROM || width < PHONE_WIDTH;
  return html`<section class="layer" id="layer-panel" ref=${box} data-stale=${Boolean(stale)} data-roomy=${showsThree}>
    ${found ? html`<${Content} found=${found} />` : html`<p class="hint">${problem}</p>`}
  </section>`;
}

/** @param {{found: Found}} props */
function Content({ found }) {
  const [room, { width, height }] = useBox();
  const kind = shownPart.value;
  return html`<${Title} found=${found} />
    <div class="layer-picture-room" ref=${room}>${
      width ? html`<${kind ? Product : Picture} ...${{ found, kind, width, height }} />` : null
    }</div>
    ${kind ? null : html`<${Lens} found=${found} />`}
    ${found.stream.missing.map((why) => html`<p class="hint" key=${why}>${t(`layer.missing.${why}`)}</p>`)}`;
}

/** Title: layer, head, token, and the share of attention in the work. @param {{found: Found}} props */
function Title({ found: { now, place, stream, work } }) {
  const label = labelText(now.labels[place]);
  const [linear, attention] = [work.linear_flops, work.attention_flops];
  const share = attention / (linear + attention);
  return html`<div class="layer-head">
    <h3 class="panel-title">${t("layer.title", { layer: stream.layer, head: now.head })}
      <span class="layer-token" lang=${langOf(label)}>${label}</span>
      <span class="layer-of">${t("layer.position", { position: place })}</span>
      <${Fidelity} kind="derived" formula=${t("layer.again")} /></h3>
    <div class="layer-work">
      <span>${t("layer.work")}</span>
      <span class="layer-work-bar" aria-hidden="true"><i style=${{ width: `${100 * share}%` }}></i></span>
      <span class="num">${t("layer.linear", { flops: flopText(linear), share: percentText(1 - share) })}</span>
      <span class="layer-work-attention num">${t("layer.attends", {
        flops: flopText(attention),
        share: percentText(share),
      })}</span>
      <${Fidelity} kind="derived" formula=${t("layer.work.formula")} />
    </div>
    <${Switches} now=${now} place=${place} />
  </div>`;
}

/**
 * Active ablations, and buttons that fork the run with the chosen head or layer ablated. The fork begins at the step
 * that computed the position.
 * @param {Pick<Found, "now" | "place">} props
 */
function Switches({ now, place }) {
  const spans = now.log.computed.get(now.seq.seq_id) ?? [];
  const span = spans.findLast(({ record, start, end }) => record <= now.index && start <= place && place < end);
  const ablated = `${now.log.header.engine.ablate ?? ""}`;
  const forkWithout = (/** @type {number | null} */ head) =>
    span && fork({ kind: "ablate", layer: now.layer, head, record: span.record });
  const button = (/** @type {string} */ of, /** @type {number | null} */ head) =>
    html`<button class="layer-fork" id=${`layer-off-${of}`} disabled=${Boolean(progress.value)}
      ...${tips([t("layer.off.tip")])} onClick=${() => forkWithout(head)}>${t(`layer.off.${of}`, {
        layer: now.layer,
        head: now.head,
      })}</button>`;
  return html`<div class="layer-off">
    ${ablated ? html`<span class="layer-of num">${t("layer.off.now", { off: offText(ablated) })}</span>` : null}
    ${canFork.value && span ? html`${button("head", now.head)} ${button("layer", null)}` : null}
    ${problem.value ? html`<span class="compare-problem" role="alert">${problem.value}</span>` : null}
  </div>`;
}

/** @param {{found: Found}} props */
function Lens({ found }) {
  const { stream } = found;
  const next = nextToken(found);
  if (!stream.lens.length) return null;
  const maxNorm = Math.max(...stream.lens.map((_, i) => Math.max(...outputNorms(found, i))));
  const text = next?.bytes ? labelText(loneLabel(next.bytes)) : "";
  const sentence = !next
    ? t("layer.lens.open")
    : next.first < 0
      ? t("layer.lens.never", { token: text })
      : t(next.first ? "layer.lens.first" : "layer.lens.at_once", { token: text, layer: next.first - 1 });
  return html`<section class="layer-lens" aria-label=${t("stage.lens")}>
    <h3 class="panel-title"><span ...${tips([t("stage.lens.what")])} tabindex="0">${t("stage.lens")}</span>
      <${Fidelity} kind="derived" formula=${t("stage.lens.formula")} />
      <span class="layer-said" role="status">${sentence}</span></h3>
    <ol class="layer-lens-row" data-arrows onKeyDown=${moveFocus}>${stream.lens.map(
      (top, i) => html`<${Cell} key=${i} i=${i} top=${top} next=${next} norms=${outputNorms(found, i)}
        maxNorm=${maxNorm} chosen=${i - 1 === stream.layer} />`,
    )}</ol>
  </section>`;
}

/**
 * Return the norms of the attention and feed-forward outputs of a layer.
 * @param {Found} found
 * @param {number} i index in the lens; 0 is the embedding
 */
function outputNorms({ stream }, i) {
  if (i === 0) return [0, 0];
  const norms = stream.norms.row(i - 1);
  return [norms[1], norms[3]];
}

/**
 * @param {{
 *   i: number, top: Candidate[], next: ReturnType<typeof nextToken>, norms: number[], maxNorm: number, chosen: boolean,
 * }} props
 */
function Cell({ i, top, next, norms, maxNorm, chosen }) {
  const name = i ? t("layer.lens.layer", { layer: i - 1 }) : t("layer.embedding");
  const guesses = top.map(({ token_bytes, logprob }) => {
    const text = labelText(loneLabel(token_bytes));
    return { text, said: `${text} ${probabilityText(Math.exp(logprob))}`, p: Math.exp(logprob) };
  });
  const right = top[0]?.token_id === next?.tokenId;
  const [attention, ffn] = norms.map((norm) => norm.toPrecision(2));
  const normText = i ? t("layer.lens.adds", { attention, ffn }) : null;
  const label = `${name}: ${guesses.map((one) => one.said).join(", ")}`;
  return html`<li><button class="layer-cell" aria-pressed=${chosen} disabled=${i === 0} tabindex=${chosen ? 0 : -1}
    data-right=${right} data-first=${next?.first === i} aria-label=${label} ...${tips([label, normText])}
    onClick=${() => (settings.layer.value = i - 1)}>
    <small>${name}</small>
    ${guesses.map(
      ({ text, p }, place) => html`<span class="layer-guess" data-place=${place} lang=${langOf(text)}>
        <b>${text}</b><i class="num">${probabilityText(p)}</i></span>`,
    )}
    <span class="layer-adds" aria-hidden="true">${norms.map(
      (size, branch) =>
        html`<i data-of=${branch ? "ffn" : "attention"} style=${{ width: `${(100 * size) / maxNorm}%` }}></i>`,
    )}</span>
  </button></li>`;
}

const moveFocus = moveFocusAmong("button:not(:disabled)"); // the layers

/** Format a number of operations with a unit prefix: 1.41 M. @param {number} flops */
const flopText = (flops) => (flops >= 1e3 && flops < 1e6 ? `${(flops / 1e3).toPrecision(3)} k` : countText(flops));
