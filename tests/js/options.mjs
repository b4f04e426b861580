// Options that the server puts into the page, for tests without a server: `python -m tests.js`. The file that
// KVTHEATER_OPTIONS names has {tables, texts}: the table of options, and by language the words of the options.

import { readFileSync } from "node:fs";

const path = process.env.KVTHEATER_OPTIONS;
if (!path) throw new Error("run with `python -m tests.js`, which writes the file that KVTHEATER_OPTIONS names");
export const { tables, texts } = JSON.parse(readFileSync(path, "utf8"));

/** Parts of a document that modules need when they are imported. */
globalThis.document = {
  baseURI: "http://127.0.0.1/",
  getElementById: (id) => (id === "options" ? { textContent: JSON.stringify(tables) } : null),
};
