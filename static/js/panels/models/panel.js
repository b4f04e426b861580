// The server's models: properties, memory, and buttons to start a run on each.

import { useEffect } from "../../../vendor/preact/hooks.js";
import { signal } from "../../../vendor/signals/signals.js";
import { awaited, chooseModel, modelsOpen, refused } from "../../control/models.js";
import { sizeOf } from "../../core/shape.js";
import { refusalText } from "../../i18n/language.js";
import { bytesText, countText, grouped, t } from "../../i18n/words.js";
import { html } from "../../kit/html.js";
import { Sidebar } from "../../kit/sidebar.js";
import { tips } from "../../kit/tooltip.js";
import { showFailure } from "../../net/errors.js";
import { models, own } from "../../state/store.js";

/** @typedef {import("../../core/wire.js").Answers["/api/models"]} Answer */
/** @typedef {Answer["models"][number]} Listed */

const REFRESH_MS = 3000; // between updates of the device's figures while the panel is visible

/** The last answer of the server. */
const answer = signal(/** @type {Answer | null} */ (null));

/** Reason why a model could not be unloaded. */
const refusal = signal(/** @type {{name: string, text: string} | null} */ (null));

export function Panel() {
  const statuses = models.value; // dependency: refetch when a model's status changes
  useEffect(() => {
    fetchModels();
  }, [statuses, own.log.value]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || fetchModels(), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const now = answer.value;
  const listed = now?.models ?? [];
  return html`<${Sidebar} id="models" label=${t("models.title")} close=${() => (modelsOpen.value = false)}>
    <h2 class="side-title">${t("models.title")}</h2>
    <p class="hint">${t("models.note")}</p>
    <${Group} title=${t("models.named")} found=${listed.filter(({ status }) => status.place !== "at_hand")} />
    <${Group} title=${t("models.at_hand")} found=${listed.filter(({ status }) => status.place === "at_hand")} />
    ${
      now
        ? html`<p class="hint num" id="models-memory">${t("models.memory", {
            bytes: bytesText(now.bytes),
            most: bytesText(now.max_bytes),
          })}</p>`
        : null
    }
    ${now?.device ? html`<${Device} memory=${now.device} />` : null}
  <//>`;
}

/** @param {{title: string, found: Listed[]}} props */
function Group({ title, found }) {
  if (!found.length) return null;
  return html`<h3 class="panel-title">${title}</h3>
    <ul class="models">${found.map((one) => html`<${Row} key=${one.status.name} listed=${one} />`)}</ul>`;
}

/** @param {{listed: Listed}} props */
function Row({ listed }) {
  const { model, kv_bytes_per_token: bytes, theaters } = listed;
  const status = models.value[listed.status.name] ?? listed.status; // status messages arrive before the answer
  const isOn = own.log.value?.header.model.name === status.name;
  const why = refused.value?.name === status.name ? refused.value.text : null;
  const choose = async () => {
    if (!isOn && (await chooseModel(status.name))) modelsOpen.value = false;
  };
  return html`<li>
    <button class="model" data-model=${status.name} data-state=${status.state} aria-pressed=${isOn}
      aria-busy=${awaited.value === status.name}
      aria-disabled=${awaited.value !== null && awaited.value !== status.name} onClick=${choose}>
      <span class="model-head"><b>${status.name}</b> <span class="model-state">${stateOf(status, isOn)}</span></span>
      ${
        model && bytes !== null
          ? html`<span class="model-facts num">${t("models.facts", {
              params: countText(model.num_params),
              q: model.num_heads,
              kv: sizeOf(model, "num_kv_heads"),
              kind: kindOf(model),
              bytes: grouped(bytes),
            })}</span>`
          : null
      }
      ${
        status.bytes
          ? html`<span class="model-facts num">${t("models.weights", {
              bytes: bytesText(status.bytes),
              n: theaters,
            })}</span>`
          : null
      }
    </button>
    ${
      status.place !== "first" && status.state === "ready" && !theaters
        ? html`<button class="small" data-unload=${status.name} onClick=${() => unload(status.name)}>${t(
            "models.unload",
          )}</button>`
        : null
    }
    <p class="model-why" role="alert">${why ?? (refusal.value?.name === status.name ? refusal.value.text : null)}</p>
  </li>`;
}

/**
 * Attention kind by the number of query heads per KV head, or hybrid if layers have states.
 * @param {NonNullable<Listed["model"]>} model
 */
function kindOf({ num_heads, num_kv_heads, state_bytes }) {
  if (state_bytes) return t("models.hybrid");
  if (num_kv_heads === num_heads) return "MHA";
  return num_kv_heads === 1 ? "MQA" : "GQA";
}

/** @param {Listed["status"]} status @param {boolean} isOn whether the run on stage uses it */
function stateOf({ state, stage, stages }, isOn) {
  if (isOn) return t("models.on_stage");
  if (state !== "loading") return t(`models.${state}`);
  const at = stage ? stages.indexOf(stage) : 0;
  return t("models.loading", { i: at + 1, n: stages.length, what: t(`model.${stages[at]}`) });
}

/** @param {string} name */
async function unload(name) {
  try {
    const found = await fetch(`api/models/${encodeURIComponent(name)}`, { method: "DELETE" });
    const body = await found.json();
    if (found.ok) answer.value = body;
    refusal.value = found.ok ? null : { name, text: refusalText(body.error) };
  } catch (error) {
    if (!(error instanceof TypeError)) showFailure(error);
  }
}

async function fetchModels() {
  try {
    const found = await fetch("api/models");
    if (found.ok) answer.value = await found.json();
  } catch (error) {
    if (!(error instanceof TypeError)) showFailure(error); // if the server is unreachable, the last answer remains
  }
}

// Memory of the compute device by use, and the clock and power that its driver reports.

/** @typedef {NonNullable<import("../../core/wire.js").Answers["/api/models"]["device"]>} Memory */

/**
 * Split the device's memory into known parts, the rest of this process, and other processes. Pages of a pool that were
 * never written do not occupy host memory yet.
 * @param {Memory} memory
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
function Device({ memory }) {
  const { facts, logs_bytes: logs } = memory;
  const parts = partsOf(memory);
  const total = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
  const kind = facts.has_own_memory ? "gpu" : "machine";
  const clock = facts.clock_mhz === null ? null : t("device.clock", { mhz: facts.clock_mhz });
  const power = facts.power_watts === null ? null : t("device.power", { watts: Math.round(facts.power_watts) });
  const deviceFacts = [t(`device.total.${kind}`, { bytes: bytesText(facts.total_bytes) }), clock, power];
  return html`<section id="device">
    <h3 class="panel-title">${kind === "gpu" ? facts.name : t("device.title")}</h3>
    <p class="model-facts num" id="device-facts">${deviceFacts.filter(Boolean).join(" · ")}</p>
    <div class="device-bar" aria-hidden="true">${parts.map(
      ([name, bytes]) => html`<i key=${name} class=${name} style=${{ width: `${(100 * bytes) / total}%` }}></i>`,
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
