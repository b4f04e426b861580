// Bytes that the currently cached tokens would occupy in another model, with the formula and its numbers.

import { useState } from "../../../vendor/preact/hooks.js";
import { bytesText, grouped, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Select } from "../../kit/inputs.js";
import { factorsOf, PRESETS } from "../../state/options.js";
import { settings } from "../../state/settings.js";
import { isEmbedded, isSite } from "../../state/without_server.js";

/**
 * @param {{tokens: number, perToken: number}} props `tokens`: tokens with K and V in held blocks, each counted once;
 *   `perToken`: bytes per token in this run
 */
export function AsModel({ tokens, perToken }) {
  const [open, setOpen] = useState(false);
  const preset = PRESETS.find(({ id }) => id === settings.as_model.value) ?? PRESETS[0];
  if (!preset) return null;
  const bytes = tokens * preset.kv_bytes_per_token;
  const factors = factorsOf(preset);
  const symbols = preset.latent_dim ? "L · d · bytes · tokens" : "2 · L · Hkv · D · bytes · tokens";
  const ratio = Number((preset.kv_bytes_per_token / perToken).toPrecision(3));
  return html`<div class="as-model num" id="as-model">
    <p class="as-model-row">
      <span>${t("memory.as", { tokens })}</span>
      <${Select} aria-label=${t("memory.as.choose")} value=${preset.id}
        choices=${PRESETS.map(({ id, name }) => [id, name])}
        commit=${(/** @type {string} */ id) => (settings.as_model.value = id)} />
      <button
        class="figure-bytes"
        aria-expanded=${open}
        aria-controls="as-model-formula"
        title=${t("memory.as.open")}
        data-bytes=${bytes}
        onClick=${() => setOpen(!open)}
      >${bytesText(bytes)} ${open ? "▾" : "▸"}</button>
      <${Fidelity} kind="derived" formula=${symbols} />
    </p>
    <div id="as-model-formula" hidden=${!open}>
      <p>${[...factors, tokens].map(grouped).join(" · ")} = ${grouped(bytes)} B</p>
      <p id="as-model-fit">
        ${t("memory.as.weights", { weights: bytesText(preset.weights_bytes) })}${" "}
        ${
          preset.fit &&
          t("memory.as.fit", {
            gpus: preset.fit.gpus,
            card: preset.fit.card,
            room: grouped(preset.fit.tokens),
            share: Number(((100 * tokens) / preset.fit.tokens).toPrecision(3)),
          })
        }
      </p>
      <p class="hint">
        ${t("memory.as.ratio", { ratio: grouped(ratio) })} ${t("memory.as.source", {
          source: preset.source,
          dated: preset.dated,
        })}
      </p>
      ${isSite || isEmbedded ? null : html`<p><a href="scale">${t("memory.as.scale")}</a></p>`}
    </div>
  </div>`;
}
