// Whether a decoded value is what a trace may have there: the same types as Python's reader, from the same table (schema.js).

import { NdArray } from "./ndarray.js";
import { STRUCTS } from "./schema.js";

const isMap = (value) =>
  value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype;

/** By the name of a type: where `value` is not of it, what belongs there; else null. */
const SCALARS = {
  str: (value) => (typeof value === "string" ? null : "text"),
  bytes: (value) => (value instanceof Uint8Array ? null : "bytes"),
  bool: (value) => (typeof value === "boolean" ? null : "true or false"),
  null: (value) => (value === null ? null : "nil"),
  float: (value) => (typeof value === "number" ? null : "a number"),
  int: (value) => (Number.isSafeInteger(value) ? null : "a whole number up to 2^53 - 1"),
  whole: (value) => (Number.isInteger(value) ? null : "a whole number"),
  array: (value) => (value instanceof NdArray ? null : "an array"),
};

const compiled = new Map(); // name of a struct -> its check

/** A check of type `type`: a function of a value that gives null, or a sentence's end that says what is wrong and where. */
function checkOf(type) {
  if (typeof type === "string") return SCALARS[type] ? scalar(SCALARS[type]) : (value) => structOf(type)(value);
  if (type.list) return listOf(checkOf(type.list));
  if (type.map) return mapOf(checkOf(type.map));
  if (type.one) return (value) => (type.one.includes(value) ? null : ` is not one of ${type.one.join(", ")}`);
  if (type.tagged)
    return (value) =>
      isMap(value) && Object.hasOwn(type.tagged, value[type.by])
        ? structOf(type.tagged[value[type.by]])(value)
        : ` is no ${type.by} that is known`;
  const checks = type.either.map(checkOf);
  return (value) => {
    let wrong = null;
    for (const check of checks) if ((wrong = check(value)) === null) return null;
    return wrong;
  };
}

const scalar = (check) => (value) => {
  const belongs = check(value);
  return belongs === null ? null : ` is not ${belongs}`;
};

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

function mapOf(check) {
  return (value) => {
    if (!isMap(value)) return " is not a map";
    for (const key of Object.keys(value)) {
      if (!key.isWellFormed()) return " has a key that is no UTF-8";
      const wrong = check(value[key]);
      if (wrong !== null) return `.${key}${wrong}`;
    }
    return null;
  };
}

function structOf(name) {
  if (!compiled.has(name)) {
    const [required, optional] = STRUCTS[name];
    const fields = [required, optional].flatMap((those) =>
      Object.entries(those).map(([field, type]) => [field, checkOf(type), those === required]),
    );
    compiled.set(name, (value) => {
      if (!isMap(value)) return " is not a map";
      for (const [field, check, must] of fields) {
        const found = value[field];
        if (found === undefined) {
          if (must) return ` has no ${field}`;
          continue;
        }
        const wrong = check(found);
        if (wrong !== null) return `.${field}${wrong}`;
      }
      return null;
    });
  }
  return compiled.get(name);
}

/** What is wrong with `value` as a `name` of engine/trace/records.py, in words; null: nothing. */
export function wrongIn(value, name) {
  const wrong = structOf(name)(value);
  return wrong === null ? null : `${name}${wrong}`;
}
