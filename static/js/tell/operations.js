// Operations and sentences in words: what core/telling.js, sentence.js and phase_sentence.js found to say.

import { instanceName } from "../core/instances.js";
import { isBlocks, isSequence } from "../core/telling.js";
import { inLayers, layersText } from "./groups.js";
import { bytesText, hasText, secondsText, sentences, t } from "./words.js";

/**
 * An objection {rule, text, seq_id, block_id, said, counted} as a clause; one without a rule that is known here is
 * quoted.
 * @param {import("../core/trace.js").Objection} one
 */
export function objectionWords(one) {
  const key = `objection.${one.rule}`;
  return t(hasText(key) ? key : "objection.other", one);
}

/**
 * That a step failed by it.
 * @param {import("../core/trace.js").Objection} one
 */
export const stepFailed = (one) => t("error.step", { text: objectionWords(one) });

/**
 * @typedef {import("../core/telling.js").Part} Part
 * @typedef {import("../core/telling.js").Values} Values
 * @typedef {"chain" | "plain" | "short" | "long"} Register as in engine/trace/telling/words.py
 */

const MAX_NAMED = 6; // of a longer list only the first are told
const MISSING = "–"; // for a value that a log lacks, because it contradicts itself

/** The name of a sequence. @param {number} id */
export const sequenceName = (id) => t("sequence.name", { id });

/** The first bytes of a hash, as hexadecimal. @param {Uint8Array} hash */
export function hashText(hash) {
  return Array.from(hash.slice(0, 3), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The name of a type of operation; a later program may know more of them. @param {string} type */
export const operationName = (type) => (hasText(`op.${type}.chain`) ? t(`op.${type}.chain`) : type);

/**
 * The texts that parts have in a register, with their values; what has no plain one is told in the short one.
 * @param {Part[]} parts @param {Register} register @returns {Part[]}
 */
export function inRegister(parts, register) {
  const found = parts
    .map(([key, values]) => /** @type {Part} */ ([`${key}.${register}`, values]))
    .filter(([key]) => hasText(key));
  return found.length || register !== "plain" ? found : inRegister(parts, "short");
}

/** Parts in words, sentence after sentence. @param {Part[]} parts @param {Register} [register] */
export const tell = (parts, register = "long") => sentences(inRegister(parts, register).map(inWords));

/**
 * An entry of `operationsOf` in words, with what later records add.
 * @param {import("../core/operations.js").Entry} entry
 */
export function tellEntry({ parts, later, layers }) {
  const said = [...inRegister(parts, "long"), ...later].map(inWords);
  if (layers) said[0] = inLayers(layers, said[0]);
  return sentences(said);
}

/**
 * A text with its values in words, by their names: sequences, layers, bytes, blocks. Those of `within` are said first.
 * @param {Part} part
 */
export function inWords([key, values]) {
  /** @type {Record<string, any>} */
  const said = {};
  for (const [name, value] of Object.entries(values)) said[name] = shown(name, value);
  const text = t(key, said, MISSING);
  return values.within ? inLayers(values.within, text) : text;
}

/**
 * Sentences of record `index`: the first says whose it is, where there are several instances.
 * @param {import("../core/log.js").TraceLog} log @param {number} index @param {string[]} said
 */
export function atInstance(log, index, said) {
  const instance = index < 0 ? "" : instanceName(log.header, log.records[index]?.instance ?? 0);
  return instance && said.length ? [t("sentence.at", { instance, text: said[0] }), ...said.slice(1)] : said;
}

/** @param {string} name @param {any} value a field of any type */
function shown(name, value) {
  if (isSequence(name)) return [value].flat().map(sequenceName).join(t("join.list"));
  if (name === "layers" && Array.isArray(value)) return layersText(value);
  if (name === "num_bytes") return bytesText(value);
  if (name === "media") return [...new Set(value)].map((one) => t(`medium.${one}`)).join(t("join.list")) || MISSING;
  if (name.endsWith("_seconds") || name === "lease") return secondsText(value);
  if (name === "evicted_in") return value + 1; // people count records from 1
  if (isBlocks(name)) return rangesText([value].flat());
  return Array.isArray(value) ? value.join(name.endsWith("_steps") ? "–" : t("join.list")) : value;
}

/** Block ids, neighbours as ranges: 3–7, 12. @param {number[]} ids */
export function rangesText(ids) {
  /** @type {[number, number][]} */
  const ranges = [];
  for (const id of ids) {
    const last = ranges[ranges.length - 1];
    if (last && id === last[1] + 1) last[1] = id;
    else ranges.push([id, id]);
  }
  const words = ranges.map(([from, to]) =>
    from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from}–${to}`,
  );
  return words.length > MAX_NAMED ? `${words.slice(0, MAX_NAMED - 1).join(", ")}, …` : words.join(", ");
}
