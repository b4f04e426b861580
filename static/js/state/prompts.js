// The prompt in the box: what one writes, else what the run was asked last, else the first that the page offers.

import { computed, signal } from "../../vendor/signals/signals.js";
import { joinText } from "../core/labels.js";
import { countSequences } from "../core/state.js";
import { t } from "../tell/words.js";
import { own } from "./store.js";

/** Prompts offered one by one, in the reader's language. */
export const offeredPrompts = () => [1, 2, 3, 4].map((n) => t(`prompt.${n}`));

/**
 * What was written since the last submission; null: nothing.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<string | null>}
 */
const written = signal(null);

/**
 * What was submitted from here last, as it was written, and the log that it went to.
 *
 * @type {import("../../vendor/signals/signals.js").Signal<{id: number, text: string} | null>}
 */
const sent = signal(null);

const numSequences = computed(() => (own.numRecords.value, own.log.value ? countSequences(own.log.value.tail) : 0));

/** The text of the run's newest request; null before the first. Whoever submitted it, and before a reload too. */
const asked = computed(() => {
  const newest = numSequences.value ? [...(own.log.value?.tail.sequences.values() ?? [])].at(-1) : undefined;
  return newest ? promptText(newest.token_bytes.slice(0, newest.num_prompt_tokens)) : null;
});

/**
 * A prompt as it was written: without what tokenizers put before it, a control token (by its name) and a space.
 *
 * @param {Uint8Array[]} tokenBytes
 */
function promptText([first, ...rest]) {
  const named = /^<[^<>]+>$/.test(joinText([first]));
  return joinText(named ? rest : [first, ...rest]).replace(/^ /, "");
}

const sentHere = computed(() => (sent.value && sent.value.id === own.log.value?.id ? sent.value.text : null));

/** What stands in the box. */
export const draft = computed(() => written.value ?? sentHere.value ?? asked.value ?? offeredPrompts()[0]);

/** Whether the run has it already, so that no step submits it once more by itself. */
export const draftIsSent = computed(() => written.value === null && (sentHere.value ?? asked.value) !== null);

/** @param {string} text */
export const writeDraft = (text) => (written.value = text);

/** The draft has been submitted. @param {string} text */
export function markSent(text) {
  const { id } = own.log.peek() ?? { id: -1 };
  sent.value = { id, text };
  if (written.peek() === text) written.value = null; // else more was written meanwhile
}

/** What stands in the box now is to be submitted again: the log that had it is about to go. */
export function keepDraft() {
  written.value = draft.peek();
}

/** The box shows what the run is asked, whatever was written. */
export function followRun() {
  written.value = null;
  sent.value = null;
}
