// Section "What it costs": weights, cache and activations of a model under a load, the capacity of each GPU, and the
// traffic on each link.

import { grouped, t } from "../../../i18n/words.js";
import { html } from "../../../kit/html.js";
import { Choose, Count, Slider } from "../../controls.js";
import { inputs, name, numberOf, packed } from "../../inputs.js";
import { ScaleNumber, valueText } from "../../number.js";
import { Sources } from "../../sources.js";
import { Table } from "../../table.js";
import { useResult } from "../../use_result.js";
import { ConfigFile, configIn } from "./config_file.js";
import { Requests, Terms } from "./plots.js";
import { Ranks } from "./ranks.js";

/** @import {Derived, Mistake} from "../../number.js" */

/**
 * As defined in `engine/accounting/cited.py`.
 *
 * @typedef {{id: string, value: number, to: number | null, unit: string, source: string, dated: string}} Fact
 */

/** @param {{facts: Fact[]}} props */
function Cited({ facts }) {
  const rows = facts.map((one) => ({
    key: one.id,
    "data-fact": one.id,
    cells: [t(`scale.size.cited.${one.id}`), printed(one), `${one.source} (${one.dated.slice(0, 4)})`],
  }));
  const heads = ["scale.size.cited", "scale.size.cited.printed", "scale.sources.stands"];
  return html`<${Table} class="scale-table scale-words" id="scale-cited" label=${t("scale.size.cited")}
    heads=${heads.map((key) => t(key))} rows=${rows} />`;
}

/** @param {Fact} fact */
function printed({ value, to, unit }) {
  const numbers =
    to === null ? grouped(value) : t("scale.size.cited.range", { value: grouped(value), to: grouped(to) });
  return t("scale.with_unit", { value: numbers, unit });
}

const SHIPPED = "shipped"; // data type of the checkpoint
const AUTO = "auto"; // keys and values in the model's data type

/** @type {import("../../../state/settings.js").SettingTable} */
export const TABLE = {
  model: { type: name, initial: "llama-3.1-8b", place: true },
  kv_dtype: { type: name, initial: AUTO, place: true },
  dtype: { type: name, initial: SHIPPED, place: true },
  card: { type: name, initial: "a100-80gb", place: true },
  over: { type: name, initial: "nvlink-4", place: true },
  batch: { type: numberOf("size", "batch"), initial: 16, place: true },
  context: { type: numberOf("size", "context"), initial: 2048, place: true },
  tensor_parallel: { type: numberOf("size", "tensor_parallel"), initial: 1, place: true },
  max_model_len: { type: numberOf("size", "max_model_len"), initial: 8192, place: true },
  shared_prefix: { type: numberOf("size", "shared_prefix"), initial: 0, place: true },
  encoder_tokens: { type: numberOf("size", "encoder_tokens"), initial: 1500, place: true },
  max_num_batched_tokens: { type: numberOf("size", "max_num_batched_tokens"), initial: 8192, place: true },
  block_size: { type: numberOf("size", "block_size"), initial: 16, place: true },
  reserve_bytes: { type: numberOf("size", "reserve_bytes"), initial: 1 << 30, place: true },
  arrivals: { type: numberOf("size", "arrivals"), initial: 1, place: true },
  utilization: { type: numberOf("size", "utilization"), initial: 0.9, place: true },
  config: { type: packed, initial: "", place: true },
};

const SLIDERS = {
  batch: { least: 1, most: 256, step: 1 },
  context: { least: 16, most: 8192, step: 16 },
  tensor_parallel: { least: 1, most: 16, step: 1 },
};
const COUNTS = [
  "max_model_len",
  "shared_prefix",
  "max_num_batched_tokens",
  "block_size",
  "reserve_bytes",
  "arrivals",
  "utilization",
];
const MIB = 2 ** 20;
const HELD = ["kv_room", "reserved", "paged", "shared"]; // columns of the table of GPUs; "shared" may be missing
const values = inputs(TABLE);

const config = configIn(values.config);

/**
 * As defined in `app/scale/size.py`.
 *
 * @typedef {{id: string, name: string}} ListOption
 * @typedef {ListOption & {sources: import("../../sources.js").SourceFacts[]}} Sourced
 * @typedef {Sourced & {announced: string | null, memory_bytes: number, room_bytes: number, numbers: Derived[]}} Gpu
 * @typedef {Sourced & {announced: string | null, numbers: Derived[], wrong: Derived | null}} Link
 * @typedef {{
 *   model: Sourced & {num_params: number, num_active_params: number | null, max_position: number, unread: string[],
 *     layers: {kind: string, num_layers: number}[]},
 *   load: Record<string, number>, has_cross: boolean, sizes: Derived[], held: Derived[],
 *   cited: Fact[], moved: Derived[], ranks: import("./ranks.js").RankHeads, mistakes: Mistake[],
 *   gpus: Gpu[], links: Link[], gpu: string, curve: Record<string, number>[], models: ListOption[],
 *   kv_dtypes: string[], dtypes: string[]
 * }} Answer
 */

export function Section() {
  const {
    card,
    over,
    config: _,
    ...asked
  } = Object.fromEntries(Object.entries(values).map(([one, held]) => [one, held.value]));
  const own = config.value;
  /** @type {{value: Answer | null, problem: string | null}} */
  const { value, problem } = useResult("size", { ...asked, gpu: card }, own?.text ?? null);
  const worded = [SHIPPED, AUTO];
  const plain = (/** @type {string} */ id) => ({ id, name: worded.includes(id) ? t(`scale.size.${id}`) : id });
  const counts = value?.has_cross ? [...COUNTS, "encoder_tokens"] : COUNTS;
  return html`<div class="scale-controls">
      ${own ? null : choice("model", value?.models ?? [plain(asked.model)])}
      ${choice("kv_dtype", (value?.kv_dtypes ?? [asked.kv_dtype]).map(plain))}
      ${choice("dtype", (value?.dtypes ?? [asked.dtype]).map(plain))}
      ${Object.entries(SLIDERS).map(
        ([id, ends]) => html`<${Slider} key=${id} section="size" id=${id} held=${values[id]} ...${ends} />`,
      )}
      ${counts.map((id) => {
        const unit = id === "reserve_bytes" ? MIB : 1;
        return html`<${Count} key=${id} section="size" id=${id} held=${values[id]} unit=${unit} />`;
      })}
    </div>
    <${ConfigFile} config=${config} />
    ${problem ? html`<p class="scale-problem" role="alert">${problem}</p>` : null}
    ${
      value
        ? html`<${Found} answer=${value} card=${card} over=${over} />`
        : html`<div class="scale-waits" hidden=${problem !== null}></div>`
    }`;
}

/** @param {{answer: Answer, card: string, over: string}} props */
function Found({ answer, card, over }) {
  const { model, sizes, gpus, links, moved, mistakes } = answer;
  const gpu = gpus.find(({ id }) => id === card) ?? gpus[0];
  const link = links.find(({ id }) => id === over) ?? links[0];
  const own = model.sources;
  const wrong = link.wrong ? [{ kind: "both", right: "transfer", wrong: link.wrong }] : [];
  return html`<p class="hint" id="scale-model-facts">${modelText(model)}</p>
    <${Beyond} answer=${answer} />
    <${Unread} model=${model} />
    <div id="scale-sizes">
      ${sizes.map(
        (one) =>
          html`<${ScaleNumber} key=${one.id} number=${one} section="size" mistakes=${mistakes} sources=${own} />`,
      )}
    </div>
    ${answer.has_cross ? html`<p class="hint" id="scale-cross">${t("scale.size.cross")}</p>` : null}
    <${Ranks} ranks=${answer.ranks} token=${sizes.find(({ id }) => id === "kv_token")?.value} />
    <${Terms} answer=${answer} />
    <h3>${t("scale.size.fits")}</h3>
    <p class="hint">${t("scale.size.fits.hint")}</p>
    <${Fits} gpus=${gpus} />
    <div class="scale-controls">${choice("card", gpus)}</div>
    <div id="scale-card">
      ${gpu.numbers.map(
        (one) =>
          html`<${ScaleNumber} key=${one.id} number=${one} section="size" sources=${[...own, ...gpu.sources]} />`,
      )}
    </div>
    <${Requests} answer=${answer} gpu=${gpu.name} />
    <h3>${t("scale.size.filled")}</h3>
    <div id="scale-held">
      ${answer.held.map((one) => html`<${ScaleNumber} key=${one.id} number=${one} section="size" />`)}
    </div>
    <${Cited} facts=${answer.cited} />
    <h3>${t("scale.size.moving")}</h3>
    <p class="hint">${t("scale.size.moving.hint")}</p>
    <div class="scale-controls">${choice("over", links)}</div>
    <div id="scale-moved">
      ${[...moved, ...link.numbers].map(
        (one) =>
          html`<${ScaleNumber} key=${one.id} number=${one} section="size" mistakes=${wrong}
            sources=${[...own, ...link.sources]} />`,
      )}
    </div>
    <${Links} links=${links} />
    <${Sources} things=${[model, ...gpus, ...links]} />`;
}

/** Warning for lengths beyond the model's maximum position, if known. @param {{answer: Answer}} props */
function Beyond({ answer: { model, load } }) {
  const most = model.max_position;
  if (!most || load.max_model_len <= most) return null;
  return html`<p class="hint" id="scale-beyond">
    ${t("scale.size.beyond", { name: model.name, most: grouped(most), asked: grouped(load.max_model_len) })}
  </p>`;
}

/** Warning about config.json fields that no size takes into account. @param {{model: Answer["model"]}} props */
function Unread({ model: { unread } }) {
  if (unread.length === 0) return null;
  return html`<p class="hint" id="scale-unread">${t("scale.size.unread", { fields: unread.join("; ") })}</p>`;
}

/** @param {Answer["model"]} model */
function modelText(model) {
  const layers = model.layers.map(({ kind, num_layers }) => `${num_layers} ${t(`scale.size.kind.${kind}`)}`);
  const active = model.num_active_params;
  const params = t("scale.size.of_params", { params: grouped(model.num_params) });
  const used = active === null ? "" : ` ${t("scale.size.of_active", { active: grouped(active) })}`;
  return `${model.name}: ${params}${used} ${layers.join(" + ")}`;
}

/** @param {string} id @param {ListOption[]} choices */
const choice = (id, choices) => html`<${Choose} section="size" id=${id} held=${values[id]} choices=${choices} />`;

/** @param {{gpus: Gpu[]}} props */
function Fits({ gpus }) {
  const shown = HELD.filter((id) => gpus.some(({ numbers }) => numbers.some((one) => one.id === id)));
  return html`<${Numbers} id="scale-fits" title="scale.size.fits" first="scale.size.card" columns=${shown}
    rows=${gpus} />`;
}

/** @param {{links: Link[]}} props */
function Links({ links }) {
  const columns = ["transfer", "link_share"];
  return html`<${Numbers} id="scale-links" title="scale.size.moving" first="scale.size.over" columns=${columns}
    rows=${links} />`;
}

/**
 * @param {{id: string, title: string, first: string, columns: string[],
 *   rows: (ListOption & {numbers: Derived[]})[]}} props `columns`: ids of numbers; a row may lack some
 */
function Numbers({ id, title, first, columns, rows }) {
  const cells = rows.map(({ id: key, name, numbers }) => ({
    key,
    "data-gpu": key,
    cells: [
      name,
      ...columns.map((one) => {
        const found = numbers.find((number) => number.id === one);
        return html`<td key=${one} title=${found?.formula} data-number=${one}>${found ? valueText(found) : "–"}</td>`;
      }),
    ],
  }));
  const heads = [t(first), ...columns.map((one) => t(`scale.size.${one}`))];
  return html`<${Table} id=${id} label=${t(title)} heads=${heads} rows=${cells} />`;
}
