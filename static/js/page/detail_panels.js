// The panels of the detail region. A panel is a folder `panels/<name>/`: panel.js exports its component as `Panel`, its
// style sheets are found by folder, and so are its words, of which `detail.<name>` is its tab's. Here it gets its
// place.

import { lazyPanel } from "../kit/lazy.js";
import { Panel as Attention } from "../panels/attention/panel.js";

/**
 * In the order of their tabs; a name is a value of the setting `detail`. `needsServer`: a page in one file has none.
 *
 * @type {{name: string, component: import("../kit/html.js").Component, needsServer?: boolean}[]}
 */
export const DETAIL_PANELS = [
  { name: "attention", component: Attention }, // shown first: its code comes with the page
  { name: "scheduler", component: lazyPanel(() => import("../panels/scheduler/panel.js")) },
  { name: "time", component: lazyPanel(() => import("../panels/time/panel.js")) },
  { name: "race", component: lazyPanel(() => import("../panels/race/panel.js")), needsServer: true },
  { name: "museum", component: lazyPanel(() => import("../panels/museum/panel.js")), needsServer: true },
  { name: "compare", component: lazyPanel(() => import("../panels/compare/panel.js")), needsServer: true },
  { name: "library", component: lazyPanel(() => import("../panels/library/panel.js")), needsServer: true },
];
