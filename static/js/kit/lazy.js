// Lazy loading of components when they are first shown, so that a first visit loads only what it shows.

import { useEffect } from "../../vendor/preact/hooks.js";
import { signal } from "../../vendor/signals/signals.js";
import { t } from "../i18n/words.js";
import { addLazyWords } from "../state/lazy_words.js";
import { toast } from "../state/store.js";
import { isEmbedded } from "../state/without_server.js";
import { html } from "./html.js";

/** @import {Component} from "./html.js" */

/**
 * Return a panel's component, loaded by `load`, which imports the panel's module. `folder`: that of a panel whose lazy
 * style sheets (`sheets`) and words (`lazy.<code>.json` per language) are loaded with it.
 * @param {() => Promise<{Panel: Component}>} load
 * @param {string | null} [folder]
 * @param {string[]} [sheets] names that begin with "lazy"
 */
export const lazyPanel = (load, folder = null, sheets = ["lazy"]) =>
  lazy(async () => {
    const more = folder && !isEmbedded ? [...sheets.map((name) => addSheet(folder, name)), addLazyWords(folder)] : [];
    const [found] = await Promise.all([load(), ...more]);
    return found.Panel;
  });

/**
 * Insert a panel's lazy style sheet before the sheets that override panels. The panel works without it.
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
 * Return a component loaded by `load`; until it is loaded, `waiting` is rendered.
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
