// Labels of tokens. They show whitespace, and the bytes of tokens that are fragments of a character.

/**
 * Label of a token. For complete characters, `text` is the displayed text and `of` is 0. For a fragment, `char` is its
 * character (null until its other bytes arrive), `part` its number among the character's `of` tokens; `hex`: its bytes.
 * @typedef {{text: string, char: string | null, part: number, of: number, hex: string}} Label
 */

const strict = new TextDecoder("utf-8", { fatal: true });
/** @type {Record<string, string>} */
const VISIBLE = { " ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽", "\u3000": "□" };
/** @type {WeakMap<Uint8Array[], {length: number, labels: Label[]}>} */
const cache = new WeakMap();
/** @type {WeakMap<Uint8Array, Label | null>} */
const cachedLabels = new WeakMap();

/** Return the labels of a sequence's tokens. @param {Uint8Array[]} tokenBytes @returns {Label[]} */
export function tokenLabels(tokenBytes) {
  const known = cache.get(tokenBytes);
  if (known?.length === tokenBytes.length) return known.labels;
  const labels = tokenBytes.map((bytes) => completeLabel(bytes));
  labels.forEach((label, i) => {
    if (label === null) labelFragments(tokenBytes, labels, i);
  });
  const all = /** @type {Label[]} `labelFragments` replaced every null */ (labels);
  cache.set(tokenBytes, { length: tokenBytes.length, labels: all });
  return all;
}

/** Return the label of a single token, as in a list of candidates. @param {Uint8Array} bytes */
export function loneLabel(bytes) {
  return completeLabel(bytes) ?? fragment(bytes, null, 0, 1);
}

/** Return a label as a short string: `月`, `␣the`, `月 1/3`, `E6 9C`. @param {Label} label */
export function labelText(label) {
  if (!label.of) return label.text;
  return label.char ? `${label.char} ${label.part}/${label.of}` : label.hex;
}

/** Join labels to one text; tokens that complete a character become that character. @param {Label[]} labels */
export function labelsText(labels) {
  let text = "";
  for (let i = 0; i < labels.length; ) {
    const { char, part, of } = labels[i];
    const end = labels[i + of - 1];
    const isComplete = part === 1 && char !== null && end?.char === char && end.part === of;
    text += isComplete ? char : labels[i].of ? `⟨${labelText(labels[i])}⟩` : labels[i].text;
    i += isComplete ? of : 1;
  }
  return text;
}

/** Return the text of consecutive tokens without an incomplete last character. @param {Uint8Array[]} tokenBytes */
export function joinText(tokenBytes) {
  const total = tokenBytes.reduce((sum, bytes) => sum + bytes.length, 0);
  const all = new Uint8Array(total);
  let offset = 0;
  for (const bytes of tokenBytes) {
    all.set(bytes, offset);
    offset += bytes.length;
  }
  let end = total;
  for (let cut = 0; cut < 4 && end >= 0; cut++, end--) {
    try {
      return strict.decode(all.subarray(0, end));
    } catch {
      // incomplete character at the end: retry without the last byte
    }
  }
  return new TextDecoder().decode(all).replaceAll("\ufffd", "·");
}

/** Return `text` with visible whitespace and control characters. @param {string} text */
export function visible(text) {
  return text.replace(
    /[\s\p{Cc}]/gu,
    (c) => VISIBLE[c] ?? (c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : c),
  );
}

/**
 * Return the label of bytes that are valid text by themselves, else null. Labels are cached by object: a token is the
 * same Uint8Array in all states.
 * @param {Uint8Array} bytes
 * @returns {Label | null}
 */
function completeLabel(bytes) {
  const known = cachedLabels.get(bytes);
  if (known !== undefined) return known;
  const text = textOf(bytes);
  // null: `labelFragments` labels fragments together
  const label =
    text === null ? null : { text: text === "" ? "∅" : visible(text), char: null, part: 0, of: 0, hex: hexOf(bytes) };
  cachedLabels.set(bytes, label);
  return label;
}

/**
 * Return the text of `bytes`, or null. Exceptions are slow, so the decoder only gets bytes that look complete.
 * @param {Uint8Array} bytes
 */
function textOf(bytes) {
  if (bytesMissing(bytes) !== 0) return null;
  try {
    return strict.decode(bytes);
  } catch {
    return null; // overlong form or surrogate
  }
}

/**
 * Return the number of bytes missing from the last character of UTF-8 `bytes`; -1 if no continuation makes them valid.
 * @param {Uint8Array} bytes
 */
function bytesMissing(bytes) {
  let at = 0;
  while (at < bytes.length) {
    const lead = bytes[at];
    const length =
      lead < 0x80
        ? 1
        : lead >= 0xc2 && lead <= 0xdf
          ? 2
          : lead >= 0xe0 && lead <= 0xef
            ? 3
            : lead >= 0xf0 && lead <= 0xf4
              ? 4
              : 0;
    if (!length) return -1;
    for (let i = at + 1; i < Math.min(at + length, bytes.length); i++) if ((bytes[i] & 0xc0) !== 0x80) return -1;
    at += length;
  }
  return at - bytes.length;
}

/**
 * Label the incomplete token `i` together with the following tokens that complete it.
 * @param {Uint8Array[]} tokenBytes
 * @param {(Label | null)[]} labels
 * @param {number} i
 */
function labelFragments(tokenBytes, labels, i) {
  for (let end = i + 1; end <= Math.min(i + 8, tokenBytes.length); end++) {
    const run = tokenBytes.slice(i, end);
    const joined = new Uint8Array(run.reduce((sum, bytes) => sum + bytes.length, 0));
    run.reduce((offset, bytes) => (joined.set(bytes, offset), offset + bytes.length), 0);
    if (bytesMissing(joined) < 0) break;
    const text = textOf(joined);
    if (text === null) continue;
    const char = visible(text);
    run.forEach((bytes, k) => (labels[i + k] = fragment(bytes, char, k + 1, run.length)));
    return;
  }
  labels[i] = fragment(tokenBytes[i], null, 0, 1);
}

/** @param {Uint8Array} bytes @param {string | null} char @param {number} part @param {number} of @returns {Label} */
function fragment(bytes, char, part, of) {
  return { text: char ?? hexOf(bytes), char, part, of, hex: hexOf(bytes) };
}

/** @param {Uint8Array} bytes */
function hexOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ");
}
