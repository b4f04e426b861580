// The page's words for ratios, read as lines of JSON [metric, unit, better, median, low, high]: for each a line with
// [good, English, Chinese].

import { readFileSync } from "node:fs";

import { gainOf, gainText } from "../../static/js/bench/gains.js";
import { language } from "../../static/js/i18n/language.js";
import { addWords } from "../../static/js/i18n/words.js";

const CODES = ["en", "zh"];
for (const code of CODES) {
  const file = new URL(`../../engine/bench/words/gains.${code}.json`, import.meta.url);
  addWords(code, { texts: JSON.parse(readFileSync(file, "utf8")), glossary: {} });
}
for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const [metric, unit, better, median, low, high] = JSON.parse(line);
  const gain = gainOf(metric, { unit, better }, { median, low, high });
  const texts = CODES.map((code) => {
    language.value = code;
    return gainText(gain);
  });
  process.stdout.write(`${JSON.stringify([gain.good, ...texts])}\n`);
}
