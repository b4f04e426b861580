// Parts of the page whose code comes when they are first shown: a first visit is as light as what it shows.

import { useEffect } from "../../vendor/preact/hooks.js";
import { signal } from "../../vendor/signals/signals.js";
import { isEmbedded } from "../state/embedded.js";
import { addLateWords } from "../state/late_words.js";
import { toast } from "../state/store.js";
import { t } from "../tell/words.js";
import { html } from "./html.js";

/** @typedef {import("./html.js").Component} Component */

/**
 * A panel's component, whose code `load` promises: the module of its folder. `late`: the folder's name, of one whose
 * style sheets and words come with the code too: `sheets`, and a `late.<code>.json` a language.
 *
 * @param {() => Promise<{Panel: Component}>} load
 * @param {string | null} [late]
 * @param {string[]} [sheets] their names begin with "late"
 */
export const lazyPanel = (load, late = null, sheets = ["late"]) =>
  lazy(async () => {
    const more = late && !isEmbedded ? [...sheets.map((name) => addSheet(late, name)), addLateWords(late)] : [];
    const [found] = await Promise.all([load(), ...more]);
    return found.Panel;
  });

/**
 * A panel's late style sheet, before those that have a say over all panels. Without it the panel is only less pretty.
 *
 * @param {string} panel its folder
 * @param {string} name
 * @returns {Promise<void>}
 */
function addSheet(panel, name) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = `static/js/panels/${panel}/${name}.css`;
  return new Promise((done) => {
    link.onload = link.onerror = () => done();
    const over = document.querySelector('link[href*="over.css"]');
    document.head.insertBefore(link, over);
  });
}

/**
 * A component that `load` promises; before it is here nothing is drawn, or what `waiting` says.
 *
 * @param {() => Promise<Component>} load
 * @param {() => import("./html.js").Children} [waiting]
 * @returns {Component}
 */
export function lazy(load, waiting = () => null) {
  /** @type {import("../../vendor/signals/signals.js").Signal<Component | null>} */
  const part = signal(null);
  return function Lazy(given) {
    useEffect(() => {
      if (!part.value)
        load().then(
          (found) => (part.value = found),
          () => toast(t("error.no_answer"), "error"),
        );
    }, []);
    return part.value ? html`<${part.value} ...${given} />` : waiting();
  };
}
