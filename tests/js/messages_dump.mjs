// node messages_dump.mjs FILE.kvtrace: for every record one line of JSON: each operation by itself, in every register and language.

import { readFileSync } from "node:fs";

import { parseTrace } from "../../static/js/core/file.js";
import { TraceLog } from "../../static/js/core/log.js";
import { messagesOf } from "../../static/js/core/messages.js";
import { language } from "../../static/js/i18n/language.js";
import { messagesText } from "../../static/js/i18n/operations.js";
import { addWords } from "../../static/js/i18n/words.js";
import { tellingTexts } from "./message_texts.mjs";

const REGISTERS = ["chain", "plain", "short", "long"];
const LANGUAGES = ["en", "zh"];
for (const code of LANGUAGES) addWords(code, { texts: tellingTexts(code), glossary: {} });

const { header, records } = parseTrace(readFileSync(process.argv[2]));
const log = new TraceLog(header);
for (const bytes of records) log.append(bytes);
for (const record of log.records) {
  const told = record.ops.map((op, place) => {
    const parts = messagesOf([op], [{ header: log.header, record, ops: record.ops, place }]);
    return LANGUAGES.flatMap((code) => {
      language.value = code;
      return REGISTERS.map((register) => messagesText(parts, register));
    });
  });
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
