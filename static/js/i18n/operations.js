// Operations and sentences in words: renders the values of core/messages.js, sentence.js and phase_sentence.js.

import { instanceName } from "../core/instances.js";
import { isBlocks, isSequence } from "../core/messages.js";
import { inLayers, layersText } from "./groups.js";
import { bytesText, hasText, secondsText, sentences, t } from "./words.js";

/** @import {MessageKey, Values} from "../core/messages.js" */
/** @import {Objection} from "../core/trace.js" */

/**
 * Return an objection {rule, text, seq_id, block_id, said, counted} as a clause; unknown rules are quoted.
 * @param {Objection} one
 */
export function objectionWords(one) {
  const key = `objection.${one.rule}`;
  return t(hasText(key) ? key : "objection.other", one);
}

/** Return the sentence for a step that failed with an objection. @param {Objection} one */
export const stepFailed = (one) => t("error.step", { text: objectionWords(one) });

/** @typedef {"chain" | "plain" | "short" | "long"} Register as in engine/trace/messages/words.py */

const MAX_NAMED = 6; // longer lists are truncated
const MISSING = "–"; // for a value that the log lacks

/** Return the name of a sequence. @param {number} id */
export const sequenceName = (id) => t("sequence.name", { id });

/** Return the first bytes of a hash in hexadecimal. @param {Uint8Array} hash */
export function hashText(hash) {
  return Array.from(hash.slice(0, 3), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the name of an operation type; for unknown types of newer versions, the identifier. @param {string} type */
export const operationName = (type) => (hasText(`op.${type}.chain`) ? t(`op.${type}.chain`) : type);

/**
 * Select the texts of parts in a register, with their values; without plain texts, the short ones.
 * @param {MessageKey[]} parts
 * @param {Register} register
 * @returns {MessageKey[]}
 */
export function inRegister(parts, register) {
  const found = parts
    .map(([key, values]) => /** @type {MessageKey} */ ([`${key}.${register}`, values]))
    .filter(([key]) => hasText(key));
  return found.length || register !== "plain" ? found : inRegister(parts, "short");
}

/** Return parts in words, sentence after sentence. @param {MessageKey[]} parts @param {Register} [register] */
export const messagesText = (parts, register = "long") => sentences(inRegister(parts, register).map(inWords));

/**
 * Return an entry of `operationsOf` in words, with additions of later records.
 * @param {import("../core/operations.js").Entry} entry
 */
export function entryText({ parts, later, layers }) {
  const texts = [...inRegister(parts, "long"), ...later].map(inWords);
  if (layers) texts[0] = inLayers(layers, texts[0]);
  return sentences(texts);
}

/**
 * Return a text with its values (sequences, layers, bytes, blocks) in words, preceded by the layers `within`.
 * @param {MessageKey} part
 */
export function inWords([key, values]) {
  /** @type {Record<string, any>} */
  const texts = {};
  for (const [name, value] of Object.entries(values)) texts[name] = shown(name, value);
  const text = t(key, texts, MISSING);
  return values.within ? inLayers(values.within, text) : text;
}

/**
 * Prefix the sentences of record `index` with the instance if there are several.
 * @param {import("../core/log.js").TraceLog} log
 * @param {number} index
 * @param {string[]} parts
 */
export function atInstance(log, index, parts) {
  const instance = index < 0 ? "" : instanceName(log.header, log.records[index]?.instance ?? 0);
  return instance && parts.length ? [t("sentence.at", { instance, text: parts[0] }), ...parts.slice(1)] : parts;
}

/** @param {string} name @param {any} value field of any type */
function shown(name, value) {
  if (isSequence(name)) return [value].flat().map(sequenceName).join(t("join.list"));
  if (name === "layers" && Array.isArray(value)) return layersText(value);
  if (name === "num_bytes") return bytesText(value);
  if (name === "media") return [...new Set(value)].map((one) => t(`medium.${one}`)).join(t("join.list")) || MISSING;
  if (name.endsWith("_seconds") || name === "lease") return secondsText(value);
  if (name === "evicted_in") return value + 1; // records are counted from 1 in texts
  if (isBlocks(name)) return rangesText([value].flat());
  return Array.isArray(value) ? value.join(name.endsWith("_steps") ? "–" : t("join.list")) : value;
}

/** Return block ids with neighbours as ranges: 3–7, 12. @param {number[]} ids */
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
