// What core/operations.js read out of a record, in words.

import { inLayers } from "./groups.js";
import { bytesText, t } from "./words.js";

/** A text with its values put into words: sequences by name, bytes with units, few of many block ids. */
export function inWords([key, values]) {
  const said = { ...values };
  for (const name of ["name", "for", "taker"])
    if (Number.isInteger(said[name])) said[name] = t("sequence.name", { id: said[name] });
  if (Number.isInteger(said.bytes)) said.bytes = bytesText(said.bytes);
  if (said.ids) said.ids = listed(said.ids);
  const text = t(key, said).trim();
  return said.layers ? inLayers(said.layers, text) : text;
}

/** Block ids, neighbours as ranges: 3–7, 12. */
function listed(ids) {
  const ranges = [];
  for (const id of ids) {
    const last = ranges.at(-1);
    if (last && id === last[1] + 1) last[1] = id;
    else ranges.push([id, id]);
  }
  const words = ranges.map(([from, to]) =>
    from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from}–${to}`,
  );
  return words.length > 6 ? `${words.slice(0, 5).join(", ")}, …` : words.join(", ");
}
