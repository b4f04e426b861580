// The sections of the page, in their order. Each is a folder with its words and its part of the link.

import { TABLE as PAPER, Section as Paper } from "./sections/paper/section.js";
import { TABLE as PLACEMENT, Section as Placement } from "./sections/placement/section.js";
import { TABLE as QUEUES, Section as Queues } from "./sections/queues/section.js";
import { TABLE as ROOFLINE, Section as Roofline } from "./sections/roofline/section.js";
import { TABLE as SIZE, Section as Size } from "./sections/size/section.js";

/**
 * `id` names the folder, the anchor and the words `scale.<id>` (title) and `scale.<id>.lead`. `table`: its settings,
 * which the link carries; their names are unlike those of other sections.
 *
 * @typedef {{
 *   id: string, Section: import("../kit/html.js").Component, table: import("../state/settings.js").SettingTable
 * }} SectionEntry
 */

/** @type {SectionEntry[]} */
export const SECTIONS = [
  { id: "size", Section: Size, table: SIZE },
  { id: "roofline", Section: Roofline, table: ROOFLINE },
  { id: "queues", Section: Queues, table: QUEUES },
  { id: "placement", Section: Placement, table: PLACEMENT },
  { id: "paper", Section: Paper, table: PAPER },
];
