// The words of a language: from the server, or out of a page in one file.

import { effect } from "../../vendor/signals/signals.js";
import { embeddedWords, isEmbedded } from "../state/embedded.js";
import { bringLateWords } from "../state/late_words.js";
import { settings } from "../state/settings.js";
import { toast } from "../state/store.js";
import { language, languageOf } from "../tell/language.js";
import { addWords, hasWords, t } from "../tell/words.js";

let from = "words"; // the address below which the page's words are

/** @param {string} code */
async function load(code) {
  if (isEmbedded) return hasWords(code) ? undefined : addWords(code, embeddedWords(code));
  if (!hasWords(code)) {
    const answer = await fetch(`${from}/${code}.json`);
    if (!answer.ok) throw new Error(`no words of ${code}: ${answer.status}`);
    addWords(code, await answer.json());
  }
  while (await bringLateWords(code));
}

const RETRY = 2000; // ms

/** The first words. Until they are here only the template can say why nothing is drawn: it needs none of them. */
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
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }
}

/**
 * Write the page in the language of the settings, now and whenever another is chosen. Resolves when the first is here.
 *
 * @param {string} [address] below which its words are
 */
export async function followLanguage(address = from) {
  from = address;
  await loadFirst();
  effect(() => {
    const wanted = settings.lang.value;
    load(wanted).then(
      () => {
        if (settings.lang.peek() === wanted) language.value = wanted; // another may have been chosen meanwhile
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
