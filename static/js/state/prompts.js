// Content of the prompt box: the user's draft, else the run's last prompt, else the first example.

import { computed, signal } from "../../vendor/signals/signals.js";
import { joinText } from "../core/labels.js";
import { countSequences } from "../core/state.js";
import { t } from "../i18n/words.js";
import { own } from "./store.js";

/** @import {Signal} from "../../vendor/signals/signals.js" */

/** Return the example prompts in the page's language. */
export const offeredPrompts = () => [1, 2, 3, 4].map((n) => t(`prompt.${n}`));

/** Text written since the last submission; null if unchanged. @type {Signal<string | null>} */
const written = signal(null);

/** Text last submitted from this page, and the log it went to. @type {Signal<{id: number, text: string} | null>} */
const sent = signal(null);

const numSequences = computed(() => (own.numRecords.value, own.log.value ? countSequences(own.log.value.tail) : 0));

/** Text of the run's newest request, from any page; null before the first. */
const newestText = computed(() => {
  const newest = numSequences.value ? [...(own.log.value?.tail.sequences.values() ?? [])].at(-1) : undefined;
  return newest ? promptText(newest.token_bytes.slice(0, newest.num_prompt_tokens)) : null;
});

/** Return a prompt without a control token and a space that tokenizers prepend. @param {Uint8Array[]} tokenBytes */
function promptText([first, ...rest]) {
  const named = /^<[^<>]+>$/.test(joinText([first]));
  return joinText(named ? rest : [first, ...rest]).replace(/^ /, "");
}

const sentText = computed(() => (sent.value && sent.value.id === own.log.value?.id ? sent.value.text : null));

/** Content of the box. */
export const draft = computed(() => written.value ?? sentText.value ?? newestText.value ?? offeredPrompts()[0]);

/** Whether the run already has the draft, so that a step must not submit it again. */
export const draftIsSent = computed(() => written.value === null && (sentText.value ?? newestText.value) !== null);

/** @param {string} text */
export const writeDraft = (text) => (written.value = text);

/** Mark the draft as submitted. @param {string} text */
export function markSent(text) {
  const { id } = own.log.peek() ?? { id: -1 };
  sent.value = { id, text };
  if (written.peek() === text) written.value = null; // otherwise the user has changed the text since
}

/** Keep the current text as a draft, as the log that contains it is about to be replaced. */
export function keepDraft() {
  written.value = draft.peek();
}

/** Discard the draft and show the run's prompt. */
export function followRun() {
  written.value = null;
  sent.value = null;
}
