// CSV output, in the same format as the server's: engine/trace/export/tables.py.

// First characters that make a spreadsheet run a cell as a formula. Texts of prompts and files may begin with them.
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

/** @typedef {string | number | boolean | null | undefined | (string | number)[]} Cell */

/**
 * Return lines of cells as CSV. Lists of numbers are separated by spaces, undefined cells are empty.
 * @param {Cell[][]} lines
 */
export const csvText = (lines) =>
  lines
    .map((line) => line.map(cell).join(","))
    .concat("")
    .join("\r\n");

/**
 * Return a cell, quoted if necessary; a text that a spreadsheet would run as a formula is prefixed with an apostrophe.
 * @param {Cell} value
 */
function cell(value) {
  if (value === null || value === undefined) return "";
  const isNumbers = Array.isArray(value) && value.every((one) => typeof one === "number");
  const plain = Array.isArray(value) ? value.join(" ") : String(value);
  const text = typeof value !== "number" && !isNumbers && FORMULA.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
