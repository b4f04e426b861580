// Panels of the detail region. A panel is a folder `panels/<name>/`: panel.js exports its component as `Panel`; style
// sheets and words are found by folder, `detail.<name>` is the text of its tab. This table determines its position.

import { html } from "../kit/html.js";
import { lazyPanel } from "../kit/lazy.js";
import { Panel as Attention } from "../panels/attention/panel.js";

/** Queries over a complete log: beside the requests, and for a log too long to load. */
export const Queries = lazyPanel(() => import("../panels/queries/panel.js"), "queries");
/** Largest branches of the prefix cache: for a log too long to load, and for a monitored server. */
export const Branches = lazyPanel(() => import("../panels/branches/panel.js"), "branches");
const Requests = lazyPanel(() => import("../panels/requests/panel.js"), "requests");

/**
 * Panels in the order of their tabs; a name is a value of the setting `detail`. `needs`: "files" are not in a
 * single-file page, a "server" also not on a site. `needsArrays`: not for a run recorded without arrays;
 * `needsForgetting`: only with a forget_policy.
 * @type {{
 *   name: string, component: import("../kit/html.js").Component, needs?: "files" | "server", needsArrays?: boolean,
 *   needsForgetting?: boolean,
 * }[]}
 */
export const DETAIL_PANELS = [
  { name: "attention", component: Attention, needsArrays: true }, // shown first, so its code is in the initial load
  { name: "layer", component: lazyPanel(() => import("../panels/layer/panel.js"), "layer"), needs: "server" },
  { name: "scheduler", component: lazyPanel(() => import("../panels/scheduler/panel.js"), "scheduler") },
  {
    name: "forgetting",
    component: lazyPanel(() => import("../panels/forgetting/panel.js"), "forgetting"),
    needsForgetting: true,
  },
  { name: "prefix", component: lazyPanel(() => import("../panels/prefix/panel.js"), "prefix") },
  { name: "requests", component: () => html`<${Requests} queries=${Queries} />` },
  { name: "time", component: lazyPanel(() => import("../panels/time/panel.js"), "time") },
  { name: "race", component: lazyPanel(() => import("../panels/race/panel.js"), "race"), needs: "files" },
  { name: "museum", component: lazyPanel(() => import("../panels/museum/panel.js"), "museum"), needs: "files" },
  { name: "compare", component: lazyPanel(() => import("../panels/compare/panel.js"), "compare"), needs: "server" },
  { name: "library", component: lazyPanel(() => import("../panels/library/panel.js"), "library"), needs: "files" },
];

/** Return a panel of the detail region by its name. @param {string} name */
export const panelOf = (name) => DETAIL_PANELS.find((panel) => panel.name === name)?.component;
