// Texts about one head, and the keyboard navigation between heads.

import { batch } from "../../../vendor/signals/signals.js";
import { rowOf, strongest } from "../../core/attention.js";
import { labelText } from "../../core/labels.js";
import { measuredHeads } from "../../core/roles.js";
import { kvHeadOf } from "../../core/shape.js";
import { grouped, probabilityText, t } from "../../i18n/words.js";
import { roles } from "../../state/roles.js";
import { settings } from "../../state/settings.js";
import { log, sequenceView } from "../../state/store.js";
import { sources } from "./matrix_image.js";

/** Name of a head: its layer, its number and its KV head. @param {number} l @param {number} h */
export function headName(l, h) {
  const model = log.value?.header.model;
  return t("overview.cell", { layer: l, head: h, kv: model ? kvHeadOf(model, l, h) : h });
}

/**
 * Lines of a head's tooltip: its name, the key with the largest weight for the newest query, and its known role.
 * @param {number} l @param {number} h
 */
export function cellLines(l, h) {
  const now = sequenceView.value;
  if (!now) return [];
  const query = now.query ?? now.numFilled - 1;
  const row = rowOf(now.log, sources.value[query], l, h);
  /** @param {number} p */
  const token = (p) => t("matrix.token", { token: labelText(now.labels[p]), position: p });
  const top = row && strongest(row);
  const reads = top
    ? t("overview.strongest", {
        query: token(query),
        key: token(top.position),
        weight: probabilityText(top.weight),
      })
    : t("matrix.unknown");
  return [headName(l, h), reads, ...roleLines(now.log.header.model, l, h)];
}

/** @param {import("../../core/trace.js").ModelFacts} model @param {number} l @param {number} h */
function roleLines(model, l, h) {
  const measured = measuredHeads(model);
  if (measured.length)
    return measured.filter((one) => one.layer === l && one.head === h).map((one) => roleText("overview.known", one));
  const role = roles.value?.role(l, h);
  if (role) return [roleText("overview.derived", role)];
  const queries = Math.max(0, ...(roles.value?.of(l, h) ?? []).map((one) => one.queries));
  return queries ? [t("overview.no_role", { n: queries })] : [];
}

/** @param {string} key @param {import("../../core/trace.js").HeadPattern} measured */
const roleText = (key, { pattern, mean_weight, uniform, queries }) =>
  t(key, {
    pattern: t(`stage.pattern.${pattern}`),
    weight: probabilityText(mean_weight),
    uniform: probabilityText(uniform),
    n: grouped(queries),
  });

/** Choose a head; indices beyond the edge are clamped. @param {number} l @param {number} h */
export function choose(l, h) {
  const model = log.value?.header.model;
  if (!model) return;
  batch(() => {
    settings.layer.value = Math.max(0, Math.min(model.num_layers - 1, l));
    settings.head.value = Math.max(0, Math.min(model.num_heads - 1, h));
  });
}

/** @type {Record<string, [number, number, number]>} down, right, layers */
const MOVES = {
  ArrowUp: [-1, 0, 0],
  ArrowDown: [1, 0, 0],
  ArrowLeft: [0, -1, 0],
  ArrowRight: [0, 1, 0],
  PageUp: [0, 0, -1],
  PageDown: [0, 0, 1],
};

/** Step of a navigation key as [down, right, layers]; undefined for other keys. @param {string} key */
export const moveFor = (key) => MOVES[key];
