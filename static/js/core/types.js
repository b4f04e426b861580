// Type checks of decoded trace values by the types of Python's reader (schema.js).

import { MAX_SECONDS } from "./limits.js";
import { NdArray } from "./ndarray.js";
import { STRUCTS } from "./schema.js";

/**
 * @typedef {string | {list: Type} | {map: Type} | {one: string[]} | {tagged: Record<string, string>, by: string} |
 *   {either: Type[]}} Type
 * @typedef {(value: unknown) => string | null} Check error of a value, as the end of a sentence; null if valid
 */

/** @type {Record<string, Record<string, Type>[]>} */
const structs = /** @type {any} its literals have wider types */ (STRUCTS);

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isMap = (value) =>
  value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype;

/**
 * Checks by scalar type: the expected kind if `value` does not match, else null.
 * @type {Record<string, (value: unknown) => string | null>}
 */
const SCALARS = {
  str: (value) => (typeof value === "string" ? null : "text"),
  bytes: (value) => (value instanceof Uint8Array ? null : "bytes"),
  bool: (value) => (typeof value === "boolean" ? null : "true or false"),
  null: (value) => (value === null ? null : "nil"),
  float: (value) => (typeof value === "number" ? null : "a number"),
  seconds: (value) =>
    typeof value === "number" && Math.abs(value) <= MAX_SECONDS ? null : "a number of seconds that a clock shows",
  int: (value) => (Number.isSafeInteger(value) ? null : "a whole number up to 2^53 - 1"),
  whole: (value) => (Number.isInteger(value) ? null : "a whole number"),
  array: (value) => (value instanceof NdArray ? null : "an array"),
};

/** @type {Map<string, Check>} by name of a struct */
const compiled = new Map();

/**
 * Return a check for `type`: a function of a value that returns null, or the end of a sentence with the error and its
 * position.
 * @param {Type} type
 * @returns {Check}
 */
function checkOf(type) {
  if (typeof type === "string") return SCALARS[type] ? scalar(SCALARS[type]) : (value) => structOf(type)(value);
  if ("list" in type) return listOf(checkOf(type.list));
  if ("map" in type) return mapOf(checkOf(type.map));
  if ("one" in type)
    return (value) =>
      type.one.includes(/** @type {any} `includes` also accepts other types */ (value))
        ? null
        : ` is not one of ${type.one.join(", ")}`;
  if ("tagged" in type)
    return (value) =>
      isMap(value) && Object.hasOwn(type.tagged, String(value[type.by]))
        ? structOf(type.tagged[String(value[type.by])])(value)
        : ` is no ${type.by} that is known`;
  const checks = type.either.map(checkOf);
  return (value) => {
    let wrong = null;
    for (const check of checks) if ((wrong = check(value)) === null) return null;
    return wrong;
  };
}

/** @param {Check} check @returns {Check} */
const scalar = (check) => (value) => {
  const expected = check(value);
  return expected === null ? null : ` is not ${expected}`;
};

/** @param {Check} check @returns {Check} */
function listOf(check) {
  return (value) => {
    if (!Array.isArray(value)) return " is not a list";
    for (let i = 0; i < value.length; i++) {
      const wrong = check(value[i]);
      if (wrong !== null) return `[${i}]${wrong}`;
    }
    return null;
  };
}

/** @param {Check} check @returns {Check} */
function mapOf(check) {
  return (value) => {
    if (!isMap(value)) return " is not a map";
    for (const key of Object.keys(value)) {
      if (!key.isWellFormed()) return " has a key that is not UTF-8";
      const wrong = check(value[key]);
      if (wrong !== null) return `.${key}${wrong}`;
    }
    return null;
  };
}

/** @param {string} name @returns {Check} */
function structOf(name) {
  let found = compiled.get(name);
  if (!found) {
    const [required, optional] = structs[name];
    const fields = [required, optional].flatMap((group) =>
      Object.entries(group).map(([field, type]) => ({ field, check: checkOf(type), isRequired: group === required })),
    );
    found = (value) => {
      if (!isMap(value)) return " is not a map";
      for (const { field, check, isRequired } of fields) {
        const own = value[field];
        if (own === undefined) {
          if (isRequired) return ` has no ${field}`;
          continue;
        }
        const wrong = check(own);
        if (wrong !== null) return `.${field}${wrong}`;
      }
      return null;
    };
    compiled.set(name, found);
  }
  return found;
}

/**
 * Return the error in words if `value` is not a valid `name` of engine/trace/records.py, else null.
 * @param {unknown} value
 * @param {string} name
 */
export function wrongIn(value, name) {
  const wrong = structOf(name)(value);
  return wrong === null ? null : `${name}${wrong}`;
}
