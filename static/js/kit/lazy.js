// Parts of the page whose code comes when they are first shown: a first visit is as light as what it shows.

import { useEffect } from "../../vendor/preact/hooks.js";
import { signal } from "../../vendor/signals/signals.js";
import { toast } from "../state/store.js";
import { t } from "../tell/words.js";
import { html } from "./html.js";

/** @typedef {import("./html.js").Component} Component */

/**
 * A panel's component, whose code `load` promises: the module of its folder.
 *
 * @param {() => Promise<{Panel: Component}>} load
 */
export const lazyPanel = (load) => lazy(() => load().then((found) => found.Panel));

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
