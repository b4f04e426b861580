// Labels beside the token row's rows: names, ranges, and the reason why a row is empty.

import { bytesText, probabilityText, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Term } from "../../kit/term.js";
import { viewSub } from "../../state/stage_playhead.js";
import { bare } from "../../state/store.js";
import { LensSwitch } from "./lens_row.js";
import { done, rowsOf } from "./token_row_columns.js";
import { legendOf, rangesOf } from "./token_row_paint.js";

/** @import {Children} from "../../kit/html.js" */
/** @import {View} from "../../state/store.js" */
/** @import {Kind} from "./token_row_columns.js" */

const MIN_TWO_LINES = 32; // px of a row for two lines

/** Names of the rows, with the ranges of their colours. @param {{now: View | null, height: number}} props */
export function Gutter({ now, height }) {
  const at = rowsOf(now, height || 300);
  const ranges = now ? rangesOf() : {};
  const attentionMax = legendOf(now);
  const latent = now?.log.header.model.latent_dim ?? 0;
  /** @type {(kind: Kind | "attention", text: string, term: string, second: string) => Children} */
  const label = (kind, text, term, second) =>
    at[kind].height > 0 &&
    html`<div class=${`gutter-row of-${kind}`} style=${{ top: `${at[kind].y}px`, height: `${at[kind].height}px` }}>
    <span class="gutter-name"><${Term} id=${term}>${text}<//> <${Fidelity}
      kind=${latent && (kind === "k" || kind === "v") ? "derived" : "captured"}
      formula=${t("stage.latent_formula", { latent })} /></span>
    ${at[kind].height < MIN_TWO_LINES ? null : html`<span class="gutter-second num">${second}</span>`}
  </div>`;
  /** @param {Kind} kind */
  const range = (kind) => (ranges[kind] ? t("stage.scale", { max: ranges[kind] }) : "");
  const token = html`<div class="gutter-token">${t("stage.token")}</div>`;
  if (bare.value) return html`<div class="gutter">${token}</div>`;
  return html`<div class="gutter">
    ${label(
      "attention",
      t("stage.attention"),
      "attention_weight",
      attentionMax ? `0 – ${probabilityText(attentionMax)}` : "",
    )} ${label("k", t("stage.key"), "key", range("k"))}
    ${label("v", t("stage.value"), "value", range("v"))} ${
      at.state.height > 0 &&
      html`<div class="gutter-row of-state" style=${{ top: `${at.state.y}px`, height: `${at.state.height}px` }}>
        <span class="gutter-name" title=${t("stage.state.why")}>${t("stage.state")} <b class="num">${bytesText(
          now?.log.header.model.state_bytes ?? 0,
        )}</b> <${Fidelity} kind="captured" /></span></div>`
    } ${label("q", t("stage.query"), "query", range("q"))}
    ${token}
    <${LensSwitch} now=${now} />
  </div>`;
}

/** Reason why there is no attention row, shown in its place. @param {{now: View | null, height: number}} props */
export function Notice({ now, height }) {
  if (!now || bare.value) return null;
  const name = t("sequence.name", { id: now.seq.seq_id });
  const place = { layer: now.layer, head: now.head };
  let text = "";
  if (now.released) text = t("stage.released", { name });
  else if (!now.entry)
    text = now.record.kind === "submit" ? t("stage.no_attention.submit") : t("stage.no_attention.other", { name });
  else if (!done(viewSub.value, "attend")) text = t("stage.no_attention.not_yet");
  else if (!now.attention) {
    const isLoading = now.log.captureMissing(now.index, now.layer);
    if (isLoading) text = t("stage.no_attention.loading");
    else text = t(now.record.has_capture ? "stage.no_attention.omitted" : "stage.no_attention.missing", place);
  }
  const { attention: row } = rowsOf(now, height);
  return text ? html`<p class="token-row-notice" style=${{ top: `${row.y + row.height / 2}px` }}>${text}</p>` : null;
}
