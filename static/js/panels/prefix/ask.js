// "Which prefix would hit": a typed prompt or one of the run's, looked up in the cache as shown.

import { computed, signal } from "../../../vendor/signals/signals.js";
import { jumpTo } from "../../control/playback.js";
import { contentsOf } from "../../core/cached_contents.js";
import { joinText, visible } from "../../core/labels.js";
import { isAblated, wouldHit } from "../../core/prefix_hit.js";
import { prefixTree } from "../../core/prefix_tree.js";
import { grouped, sentences, t } from "../../i18n/words.js";
import { Fidelity } from "../../kit/fidelity.js";
import { html } from "../../kit/html.js";
import { Select, withValue } from "../../kit/inputs.js";
import { canTokenize, tokensOf } from "../../net/commands.js";
import { log, numRecords, shownSeq, state } from "../../state/store.js";

/** @import {Signal} from "../../../vendor/signals/signals.js" */
/** @import {Hit} from "../../core/prefix_hit.js" */

const TYPING_DELAY_MS = 250; // after the last input, before the text is sent for tokenization
const MAX_REQUESTS = 200; // maximum number of listed requests, the newest first
const PROMPT_TEXT = 28; // characters of a prompt shown beside its request's name

/**
 * The looked-up prompt: a sequence of the run, or a text with its tokens (null until they arrive).
 * @type {Signal<{seq: number} | {text: string, tokens: number[] | null} | null>}
 */
export const queried = signal(null);

/** Instance chosen by the user, or null for the instance of the sequence on stage. @type {Signal<number | null>} */
export const chosenInstance = signal(null);
/** Instance whose cache is drawn. */
export const shownInstance = computed(
  () => chosenInstance.value ?? state.value?.sequences.get(shownSeq.value ?? -1)?.instance ?? 0,
);

/** Prefix cache of that instance at the drawn record. */
export const tree = computed(() =>
  log.value && state.value ? prefixTree(log.value, state.value, shownInstance.value) : null,
);

/** Whether an ablation makes hits depend on more than tokens, so that they cannot be predicted. */
const ablated = computed(() => Boolean(log.value && state.value && isAblated(log.value.header, state.value.index)));

/**
 * Result of the lookup, or null if there is no prompt or no prediction.
 * @type {import("../../../vendor/signals/signals.js").ReadonlySignal<Hit | null>}
 */
export const answer = computed(() => {
  const [now, current, cache, query] = [log.value, state.value, tree.value, queried.value];
  if (!now || !current || !cache || !query || ablated.value) return null;
  if (!("seq" in query)) return query.tokens && wouldHit(now, cache, current, query.tokens);
  const sequence = now.tail.sequences.get(query.seq);
  if (!sequence) return null;
  const prompt = sequence.token_ids.slice(0, sequence.num_prompt_tokens);
  return wouldHit(now, cache, current, prompt, contentsOf(now).saltOf(query.seq));
});

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** Look up a text; the server tokenizes it. @param {string} text */
function lookUp(text) {
  clearTimeout(timer);
  if (!text) return void (queried.value = null);
  queried.value = { text, tokens: null };
  timer = setTimeout(async () => {
    const found = await tokensOf(text);
    const now = queried.peek();
    if (found && now && "text" in now && now.text === text) queried.value = { text, tokens: found.token_ids };
  }, TYPING_DELAY_MS);
}

/** Beginning of a prompt's text. @param {{token_bytes: Uint8Array[], num_prompt_tokens: number}} sequence */
function promptText({ token_bytes: bytes, num_prompt_tokens: count }) {
  const text = [...visible(joinText(bytes.slice(0, Math.min(count, PROMPT_TEXT))))];
  return text.length > PROMPT_TEXT ? `${text.slice(0, PROMPT_TEXT).join("")}…` : text.join("");
}

export function Ask() {
  numRecords.value; // dependency: the log grows in place
  const query = queried.value;
  const all = [...(log.value?.tail.sequences.values() ?? [])].filter((one) => one.parent_seq_id === null);
  const chosen = query && "seq" in query ? query.seq : null;
  const offered = all.slice(-MAX_REQUESTS).reverse();
  return html`<div class="prefix-ask">
    ${
      canTokenize()
        ? html`<input type="search" id="prefix-text" aria-label=${t("prefix.ask.text")}
          placeholder=${t("prefix.ask.text")} value=${query && "text" in query ? query.text : ""}
          onInput=${withValue(lookUp)} />`
        : null
    }
    <${Select} id="prefix-request" aria-label=${t("prefix.ask.request")} title=${t("prefix.ask.request")}
      value=${chosen} commit=${(/** @type {string} */ id) => (queried.value = id === "" ? null : { seq: Number(id) })}
      choices=${[
        ["", t("prefix.ask.request")],
        ...offered.map((one) => [one.seq_id, `${one.request_id}: ${promptText(one)}`]),
      ]} />
  </div>`;
}

/** The result in a sentence, with links to the records that it names. */
export function Answer() {
  const hit = answer.value;
  const isWaiting = queried.value && "text" in queried.value && queried.value.tokens === null;
  return html`<p class="prefix-answer num" role="status" id="prefix-answer">${
    hit
      ? html`${sentences([countText(hit), endText(hit)])} <${Fidelity} kind="derived" formula=${t("prefix.formula")} />
        ${
          hit.eviction
            ? html` <button class="link" onClick=${() => jumpTo(hit.eviction?.record ?? 0)}
            >${t("prefix.go", { record: grouped(hit.eviction.record + 1) })}</button>`
            : null
        }`
      : ablated.value && queried.value
        ? t("prefix.ablated")
        : isWaiting
          ? t("prefix.asking")
          : null
  }</p>`;
}

/** @param {Hit} hit */
const countText = ({ path, tokens, of, most }) =>
  t("prefix.answer", { n: grouped(path.length), most: grouped(most), tokens: grouped(tokens), of: grouped(of) });

/** Reason why the hit ends. @param {Hit} hit */
function endText({ end, eviction, shared, path }) {
  if (end === "evicted" && eviction)
    return t(eviction.seq === null ? "prefix.end.evicted" : "prefix.end.evicted_for", {
      block: eviction.block,
      record: grouped(eviction.record + 1),
      name: t("sequence.name", { id: eviction.seq }),
    });
  if (end === "differs" || end === "no_state") return t(`prefix.end.${end}`, { n: shared });
  return t(`prefix.end.${end === "nothing" && path.length ? "nothing_more" : end}`);
}
