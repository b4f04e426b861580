// Loading of a language's words, from the server or from a single-file page.

import { effect } from "../../vendor/signals/signals.js";
import { language, languageOf } from "../i18n/language.js";
import { addWords, hasWords, t } from "../i18n/words.js";
import { loadLazyWords } from "../state/lazy_words.js";
import { settings } from "../state/settings.js";
import { toast } from "../state/store.js";
import { embeddedWords, isEmbedded } from "../state/without_server.js";

let base = "words"; // address of the page's words

/** @param {string} code */
async function load(code) {
  if (isEmbedded) return hasWords(code) ? undefined : addWords(code, embeddedWords(code));
  if (!hasWords(code)) {
    const answer = await fetch(`${base}/${code}.json`);
    if (!answer.ok) throw new Error(`no words of ${code}: ${answer.status}`);
    addWords(code, await answer.json());
  }
  while (await loadLazyWords(code));
}

const RETRY_MS = 2000;

/** Load the first words, with retries. Until they arrive, show the template `no-words`, which needs no words. */
async function loadFirst() {
  for (;;) {
    try {
      await load(settings.lang.value);
      return document.getElementById("no-words-shown")?.remove();
    } catch {
      if (!document.getElementById("no-words-shown")) {
        const template = /** @type {HTMLTemplateElement} */ (document.getElementById("no-words"));
        document.body.append(template.content.cloneNode(true));
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/**
 * Load the language of the settings, now and on every change. Resolves when the first has loaded.
 * @param {string} [address] base address of the words
 */
export async function followLanguage(address = base) {
  base = address;
  await loadFirst();
  effect(() => {
    const code = settings.lang.value;
    load(code).then(
      () => {
        if (settings.lang.peek() === code) language.value = code; // another one may have been chosen since
      },
      () => {
        settings.lang.value = language.peek();
        toast(t("error.no_answer"), "error");
      },
    );
  });
  language.value = settings.lang.value;
  effect(() => {
    document.documentElement.lang = languageOf(language.value)?.html ?? language.value;
  });
}
