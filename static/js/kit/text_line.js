// Token text for reading, with small, pale control tokens and line breaks.

import { visible } from "../core/labels.js";
import { html } from "./html.js";

// Control tokens of tokenizers in their usual spellings: `<|endoftext|>`, `</s>`, `[SEP]`.
const SPECIAL = /(<\|[^<>|\s]+\|>|<\/?(?:s|pad|unk|bos|eos)>|\[(?:CLS|SEP|PAD|EOS|BOS|INST)\])/;
const SPECIAL_OR_END = new RegExp(`${SPECIAL.source.slice(0, -1)}|\\n)`);

/** Render on one line, with marks for line breaks. @param {string} text */
export const textLine = (text) => marked(text, SPECIAL_OR_END);

/** Render with line breaks. @param {string} text */
export const textLines = (text) => marked(text, SPECIAL);

/** @param {string} text @param {RegExp} marks with one group, so that every second part is a mark */
const marked = (text, marks) =>
  text.split(marks).map((part, i) => (i % 2 ? html`<span class="text-mark">${visible(part)}</span>` : part));
