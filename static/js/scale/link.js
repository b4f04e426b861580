// What a link to the page carries: language and theme, which all pages share, and the settings of each section.

import { TABLE as PAGE, settings } from "../state/settings.js";
import { inputs } from "./inputs.js";
import { SECTIONS } from "./sections.js";

/** @type {import("../state/settings.js").SettingTable} */
export const TABLE = Object.assign({ lang: PAGE.lang, theme: PAGE.theme }, ...SECTIONS.map(({ table }) => table));

/** Every row as a signal, by name. @type {Record<string, import("../../vendor/signals/signals.js").Signal<any>>} */
export const link = { lang: settings.lang, theme: settings.theme, ...inputs(TABLE, ["lang", "theme"]) };
