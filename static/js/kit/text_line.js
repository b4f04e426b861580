// A text of tokens as people read it: what is no text in it is small and pale.

import { visible } from "../core/labels.js";
import { html } from "./html.js";

// A tokenizer's own marks, by their usual spellings: `<|endoftext|>`, `</s>`, `[SEP]`.
const SPECIAL = /(<\|[^<>|\s]+\|>|<\/?(?:s|pad|unk|bos|eos)>|\[(?:CLS|SEP|PAD|EOS|BOS|INST)\])/;
const SPECIAL_OR_END = new RegExp(`${SPECIAL.source.slice(0, -1)}|\\n)`);

/**
 * On one line: where a line ends there is a mark too.
 * @param {string} text
 */
export const textLine = (text) => marked(text, SPECIAL_OR_END);

/**
 * With its own lines.
 * @param {string} text
 */
export const textLines = (text) => marked(text, SPECIAL);

/** @param {string} text @param {RegExp} marks in a group: every second part is one */
const marked = (text, marks) =>
  text.split(marks).map((part, i) => (i % 2 ? html`<span class="text-mark">${visible(part)}</span>` : part));
