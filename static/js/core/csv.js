// CSV output, in the same format as the server's: engine/trace/export/tables.py.

// Characters that a spreadsheet takes for the start of a formula, in a text from a prompt, a model or a file.
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
