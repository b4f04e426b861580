// Differences of two runs: the first token and the first operation that differ, and notes for reading the comparison.

import { messagesOf } from "../../core/messages.js";
import { refusalText } from "../../i18n/language.js";
import { inRegister, inWords } from "../../i18n/operations.js";
import { grouped, sentences, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { quoted } from "../../runs/words.js";
import { chosenToken, isUnsaid, SIDES, wordOf } from "./comparison.js";
import { showRecord } from "./model.js";
import { settingName, settingValue } from "./verdict.js";

/** @import {Answer, Side, Op} from "./comparison.js" */

/** The first differing token, shown above all lanes so that it stays visible. @param {{now: Answer}} props */
export function FirstToken({ now }) {
  const first = now.first_token;
  return html`<div class="compare-token-first">
    <p class="compare-verdict" id="compare-token">${firstToken(now)} <${Fidelity} kind="captured" /></p>
    ${
      first
        ? html`<p class="compare-ways">
          ${SIDES.map((side) => html`<${RecordButton} key=${side} side=${side} record=${first[side]?.record} />`)}
        </p>`
        : null
    }
  </div>`;
}

/**
 * Text of the first token that differs, or that none does.
 * @param {Pick<Answer, "first_token" | "sequences" | "unsaid">} comparison
 */
export function firstToken(comparison) {
  const { first_token: first, sequences } = comparison;
  if (SIDES.some((side) => isUnsaid(comparison, side, "output_tokens"))) return t("compare.unsaid.tokens");
  const equal = sequences.reduce((sum, pair) => sum + pair.equal_tokens, 0);
  if (!first) return t("compare.no_token", { n: grouped(equal) });
  const [a, b] = SIDES.map((side) => (first[side] ? quoted(wordOf(first[side])) : t("runs.ended")));
  return t("compare.first_token", { request: first.request_id, position: first.position, a, b });
}

/** The first operation that differs, and notes. @param {{now: Answer}} props */
export function Differences({ now }) {
  const op = opDifference(now);
  const operation = (/** @type {Side} */ side) =>
    html`<${Operation} key=${side} now=${now} side=${side} text=${op?.[side]} />`;
  return html`<div class="compare-differences">
    <div>
      <p class="compare-verdict" id="compare-op">
        ${op ? op.where : equalText(now)} <${Fidelity} kind="captured" />
      </p>
      ${op ? html`<dl class="compare-ops">${SIDES.map(operation)}</dl>` : null}
    </div>
    <${Notes} now=${now} />
  </div>`;
}

/** @param {Pick<Answer, "a">} comparison */
const equalText = ({ a }) => t("compare.no_op", { steps: grouped(a.totals.num_steps), n: a.totals.num_steps });

/** @param {{now: Answer, side: Side, text: string}} props */
function Operation({ now: { first_op: first }, side, text }) {
  const ended = first?.[`kind_${side}`] === null;
  return html`<dt class=${side}>${side.toUpperCase()}</dt>
    <dd>${text} <${RecordButton} side=${side} record=${ended ? undefined : first?.record} /></dd>`;
}

/** Button that shows a record of one of the runs. @param {{side: Side, record: number | undefined}} props */
function RecordButton({ side, record }) {
  if (record === undefined) return null;
  const name = side.toUpperCase();
  return html`<button
    class="runs-go compare-way num"
    data-side=${side}
    onClick=${() => showRecord(side, record)}
    title=${t("compare.look", { side: name })}
  >
    ${t("compare.record", { side: name, n: grouped(record + 1) })}
  </button>`;
}

/** Whether one of the two runs comes from a monitored server. @param {Answer["unsaid"]} unsaid */
const isMonitored = ({ a, b }) => [a, b].some((names) => names.includes("num_steps"));

/** @param {{now: Answer}} props */
function Notes({ now }) {
  const lines = notes(now);
  return lines.length
    ? html`<ul class="compare-notes" id="compare-notes">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`
    : null;
}

/**
 * Notes for reading the comparison: differing settings, a different model or machine, omitted inputs.
 * @param {Pick<Answer, "settings" | "same_model" | "same_machine" | "runs" | "unsaid">} comparison
 */
export function notes({ settings, same_model, same_machine, runs, unsaid }) {
  return [
    ...SIDES.filter((side) => unsaid[`source_${side}`]).map((side) =>
      t(unsaid[side].includes("num_steps") ? "compare.observed" : "compare.watched", {
        side: side.toUpperCase(),
        source: unsaid[`source_${side}`],
      }),
    ),
    ...settings.map(({ name, a, b }) =>
      t("compare.setting", { name: settingName(name), a: settingValue(name, a), b: settingValue(name, b) }),
    ),
    ...(same_model || isMonitored(unsaid) ? [] : [t("compare.other_model")]),
    ...(same_machine || isMonitored(unsaid) ? [] : [t("compare.other_machine")]),
    ...runs.flatMap(({ status }) => [
      ...(status.fork?.left_out ?? []),
      ...(status.fork && status.error ? [refusalText({ message: status.error, said: status.said })] : []),
    ]),
  ];
}

/**
 * Describe an operation. `op` is null if the record has no such operation; `kind` is null if the log ends before it.
 * @param {Op | null} op @param {string | null} kind
 * @param {string | null} token the token that it sampled
 */
export function opWords(op, kind, token = null) {
  if (!op) return t(kind === null ? "compare.op.end" : "compare.op.none");
  // bytes are hexadecimal text here; only the sampled token has a text, passed as `token`
  const plain = /** @type {import("../../core/trace.js").Op} */ (/** @type {unknown} */ (op));
  const parts = inRegister(messagesOf([plain]), "short");
  if (!parts.length) return op.type; // logs of later versions may have more operations
  return sentences(parts.map(([key, values]) => inWords([key, token === null ? values : { ...values, token }])));
}

/** @param {unknown} value of a field */
const fieldText = (value) =>
  value === null || value === undefined
    ? "–"
    : Array.isArray(value)
      ? `[${value.join(", ")}]`
      : typeof value === "number"
        ? Number(value.toPrecision(6))
        : value;

/**
 * List the differing fields of two operations with identical texts: ["verdict miss, …", "verdict
 * hit, …"].
 * @param {Op} one @param {Op} other
 */
function differingFields(one, other) {
  const [a, b] = /** @type {Record<string, unknown>[]} */ (/** @type {unknown} */ ([one, other]));
  const names = Object.keys(a).filter((field) => JSON.stringify(a[field]) !== JSON.stringify(b[field]));
  return [a, b].map((op) => names.map((field) => `${field} ${fieldText(op[field])}`).join(", "));
}

/**
 * Return the first differing operation of a comparison as {where, a, b}, or null.
 * @param {Pick<Answer, "first_op" | "sequences">} comparison
 */
export function opDifference(comparison) {
  const found = comparison.first_op;
  if (!found) return null;
  let a = opWords(found.a, found.kind_a, chosenToken(comparison, "a", found.a, found.record));
  let b = opWords(found.b, found.kind_b, chosenToken(comparison, "b", found.b, found.record));
  if (a === b && found.a && found.b)
    [a, b] = differingFields(found.a, found.b).map((fields) => t("compare.op.apart", { text: a, fields }));
  return { where: t("compare.first_op", { record: grouped(found.record + 1), op: found.op + 1 }), a, b };
}
