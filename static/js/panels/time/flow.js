// The engine's components in the order in which a request passes them, with the work of each for the sequence on stage
// in the shown record. The class and method names are vLLM's.

import { flowOf } from "../../core/flow.js";
import { joinText } from "../../core/labels.js";
import { grouped, langOf, probabilityText, secondsText, t } from "../../i18n/words.js";
import { Swatch } from "../../kit/colour.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { tips } from "../../kit/tooltip.js";
import { PHASES, viewSub } from "../../state/playhead.js";
import { log, numRecords, shownSeq, viewIndex } from "../../state/store.js";
import { ClientLanes } from "./clients.js";

/** @import {Flow} from "../../core/flow.js" */

const MAX_IDS = 4;
const MAX_TEXT = 24; // characters

/**
 * `vllm` is the corresponding class or method of vLLM, `subs` the sub-steps in which the component works.
 *
 * @typedef {{
 *   name: string, vllm: string, subs: string[], lines: (flow: Flow) => (string | null)[],
 *   seconds: (flow: Flow) => number | null,
 * }} Component
 */

/** @type {Component[]} */
const COMPONENTS = [
  {
    name: "tokenizer",
    vllm: "AsyncLLMEngine → tokenizer",
    subs: [],
    lines: (flow) => [
      t("time.flow.text_in", { text: shortened(joinText(flow.promptBytes)) }),
      t("time.flow.ids_out", { n: flow.promptIds.length, ids: idsText(flow.promptIds) }),
    ],
    seconds: ({ tokenize }) => tokenize,
  },
  {
    name: "scheduler",
    vllm: "EngineCore → Scheduler.schedule",
    subs: ["schedule"],
    lines: (flow) => [
      t("time.flow.queues", { waiting: flow.waiting, running: flow.running }),
      flow.isStep
        ? t(flow.budget === null ? "time.flow.batch_unbounded" : "time.flow.batch", {
            seqs: flow.seqs,
            tokens: grouped(flow.tokens),
            budget: grouped(flow.budget ?? 0),
          })
        : flow.isSubmission
          ? t("time.flow.no_step")
          : null,
      flow.isStep && !flow.entry ? t("time.flow.left_out") : null,
      flow.seconds.draft ? t("time.flow.drafts", { time: secondsText(flow.seconds.draft) }) : null,
    ],
    seconds: ({ isStep, seconds }) => (isStep ? seconds.schedule : null),
  },
  {
    name: "kv_cache_manager",
    vllm: "KVCacheManager.allocate_slots",
    subs: ["allocate"],
    lines: ({ hit, taken, free }) => [
      hit ? t("time.flow.hit", { n: hit }) : null,
      taken.length ? t("time.flow.taken", { n: taken.length, ids: idsText(taken) }) : t("time.flow.none_taken"),
      t("time.flow.free", { n: free }),
    ],
    seconds: () => null, // included in the scheduler's time
  },
  {
    name: "model_runner",
    vllm: "ModelRunner.execute_model",
    subs: ["qkv", "write", "attend"],
    lines: ({ entry, slots, threads }) =>
      entry
        ? [
            t("time.flow.computed", { n: entry.token_ids.length, ids: idsText(entry.token_ids) }),
            slots ? t(slots.first === slots.last ? "time.flow.slot" : "time.flow.slots", slots) : null,
            t("time.flow.keys", { n: entry.context_len }),
            threads ? t("time.flow.threads", threads) : null,
          ]
        : [t("time.flow.nothing")],
    seconds: ({ isStep, seconds }) => (isStep ? seconds.prepare + seconds.forward : null),
  },
  {
    name: "sampler",
    vllm: "Sampler",
    subs: ["sample"],
    lines: ({ chosen, entry }) => [
      chosen
        ? t("time.flow.chosen", { id: chosen.id, p: probabilityText(chosen.probability) })
        : t(entry ? "time.flow.more_prompt" : "time.flow.nothing"),
    ],
    seconds: ({ isStep, seconds }) => (isStep ? seconds.sample : null),
  },
  {
    name: "detokenizer",
    vllm: "OutputProcessor → detokenizer",
    subs: ["sample"],
    lines: (flow) => [
      flow.chosen ? t("time.flow.text_out", { id: flow.chosen.id, text: flow.chosen.text }) : t("time.flow.nothing"),
      flow.output.length ? t("time.flow.so_far", { text: tailText(joinText(flow.output)) }) : null,
      flow.end ? t("time.flow.end", { end: t(`timeline.end.${flow.end}`) }) : flow.chosen ? t("time.flow.again") : null,
    ],
    seconds: ({ isStep, seconds }) => (isStep ? seconds.detokenize : null),
  },
];

export function EngineFlow() {
  numRecords.value; // dependency: the log grows in place
  const flow = log.value && shownSeq.value !== null ? flowOf(log.value, viewIndex.value, shownSeq.value) : null;
  if (!flow)
    return html`<div class="flow" id="flow"><${ClientLanes} /><p class="hint">${t("time.empty.flow")}</p></div>`;
  const sub = viewSub.value === null ? null : PHASES[viewSub.value];
  const total = COMPONENTS.reduce((sum, part) => sum + (isWorking(part, flow) ? (part.seconds(flow) ?? 0) : 0), 0);
  return html`<div class="flow" id="flow">
    <${ClientLanes} />
    <p class="flow-head">
      <${Swatch} id=${shownSeq.value} /> <b>${t("sequence.name", { id: shownSeq.value })}</b>
      <span class="num">${t("time.flow.request", { request: flow.request, record: flow.submittedIn + 1 })}</span>
      <${Fidelity} kind="captured" />
    </p>
    <ol class="flow-parts">
      ${COMPONENTS.map(
        (part) => html`<${ComponentView} key=${part.name} part=${part} flow=${flow} sub=${sub} total=${total} />`,
      )}
    </ol>
    <p class="hint">${t("time.flow.note")}</p>
  </div>`;
}

/** Whether the component works in the record: the tokenizer on submission, all others in steps. */
const isWorking = (/** @type {Component} */ { name }, /** @type {Flow} */ { isStep, isSubmission }) =>
  name === "tokenizer" ? isSubmission : isStep;

/** @param {{part: Component, flow: Flow, sub: string | null, total: number}} props */
function ComponentView({ part, flow, sub, total }) {
  const seconds = part.seconds(flow);
  const isActive = isWorking(part, flow);
  const width = { width: `${isActive && total ? (100 * (seconds ?? 0)) / total : 0}%` };
  return html`<li class="flow-part" data-part=${part.name} data-works=${isActive}
    data-now=${sub === null ? undefined : part.subs.includes(sub)}>
    <h4 class="flow-name">${t(`time.flow.${part.name}`)}</h4>
    <code class="flow-vllm" tabindex="0" ...${tips([t("time.flow.vllm")])}>${part.vllm}</code>
    ${part
      .lines(flow)
      .filter((line) => line !== null)
      .map((line) => html`<p class="num" lang=${langOf(line)}>${line}</p>`)}
    <p class="flow-time num">${
      seconds === null ? (part.name === "kv_cache_manager" ? t("time.flow.inside") : "–") : secondsText(seconds)
    }</p>
    <i class="flow-bar" style=${width}></i>
  </li>`;
}

/** @param {number[]} ids */
const idsText = (ids) => ids.slice(0, MAX_IDS).join(" ") + (ids.length > MAX_IDS ? " …" : "");

/** @param {string} text */
const shortened = (text) => (text.length > MAX_TEXT ? `${[...text].slice(0, MAX_TEXT).join("")}…` : text);

/** @param {string} text */
const tailText = (text) => (text.length > MAX_TEXT ? `…${[...text].slice(-MAX_TEXT).join("")}` : text);
