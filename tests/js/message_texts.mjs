// Texts of operations, for tests without a server: those of engine/trace/messages that app/page/words.py serves.

import { readFileSync } from "node:fs";

const TELLING = new URL("../../engine/trace/messages/", import.meta.url);

/** Nested names joined by points: what engine/trace/messages/words.py makes of its file. */
function flat(entries, prefix = "") {
  return Object.entries(entries).flatMap(([name, entry]) =>
    typeof entry === "string" || Array.isArray(entry)
      ? [[prefix + name, [entry].flat().join("")]]
      : flat(entry, `${prefix}${name}.`),
  );
}

/** Key -> text, in one language. */
export function tellingTexts(code) {
  const telling = flat(JSON.parse(readFileSync(new URL(`words.${code}.json`, TELLING), "utf8")));
  return Object.fromEntries(telling.filter(([key]) => !key.startsWith("explain.")));
}
