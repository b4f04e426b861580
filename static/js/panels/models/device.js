// Memory of the compute device by use, and the clock and power that its driver reports.

import { bytesText, grouped, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";

/** @typedef {NonNullable<import("../../core/wire.js").Answers["/api/models"]["device"]>} Memory */

/**
 * Split the device's memory into known parts, the rest of this process, and other processes. Pages of a pool that were
 * never written do not occupy host memory yet.
 *
 * @param {Memory} memory
 * @returns {[string, number][]}
 */
export function partsOf({ facts, weights_bytes: weights, pools_bytes: pools }) {
  const rest = facts.process_bytes - weights - pools;
  const others = facts.total_bytes - facts.free_bytes - facts.process_bytes;
  /** @type {[string, number][]} */
  const parts = [
    ["weights", weights],
    ["pools", pools],
    ["rest", rest],
    ["others", others],
    ["free", facts.free_bytes],
  ];
  return parts.filter(([name, bytes]) => bytes > 0 || name === "pools" || name === "free");
}

/** @param {{memory: Memory}} props */
export function Device({ memory }) {
  const { facts, logs_bytes: logs } = memory;
  const parts = partsOf(memory);
  const whole = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
  const kind = facts.has_own_memory ? "gpu" : "machine";
  const clock = facts.clock_mhz === null ? null : t("device.clock", { mhz: facts.clock_mhz });
  const power = facts.power_watts === null ? null : t("device.power", { watts: Math.round(facts.power_watts) });
  const said = [t(`device.total.${kind}`, { bytes: bytesText(facts.total_bytes) }), clock, power];
  return html`<section id="device">
    <h3 class="panel-title">${kind === "gpu" ? facts.name : t("device.title")}</h3>
    <p class="model-facts num" id="device-facts">${said.filter(Boolean).join(" · ")}</p>
    <div class="device-bar" aria-hidden="true">${parts.map(
      ([name, bytes]) => html`<i key=${name} class=${name} style=${{ width: `${(100 * bytes) / whole}%` }}></i>`,
    )}</div>
    <dl class="device-parts num">${parts.map(
      ([name, bytes]) => html`<div key=${name} data-part=${name}>
        <dt><i class=${name} aria-hidden="true"></i>${t(`device.${name}`)}</dt>
        <dd tabindex="0" ...${tips(() => [t("device.exact", { n: grouped(bytes) })])}>${bytesText(bytes)}</dd>
      </div>`,
    )}</dl>
    <p class="hint num">${t("device.logs", { bytes: bytesText(logs) })}</p>
  </section>`;
}
