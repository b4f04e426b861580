// Tables as CSV, as the server writes them too: engine/trace/export/tables.py.

// What a spreadsheet takes for the beginning of a formula, in a text that a prompt, a model or a file may have made.
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

/** @typedef {string | number | boolean | null | undefined | (string | number)[]} Cell */

/**
 * Lines of cells as CSV. A list of numbers is written with spaces, what is not defined stays empty.
 * @param {Cell[][]} lines
 */
export const csvText = (lines) =>
  lines
    .map((line) => line.map(cell).join(","))
    .concat("")
    .join("\r\n");

/**
 * A cell: quoted where it must be; a text that a spreadsheet would run as a formula has an apostrophe in front.
 * @param {Cell} value
 */
function cell(value) {
  if (value === null || value === undefined) return "";
  const isNumbers = Array.isArray(value) && value.every((one) => typeof one === "number");
  const plain = Array.isArray(value) ? value.join(" ") : String(value);
  const text = typeof value !== "number" && !isNumbers && FORMULA.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
