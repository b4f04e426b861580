// Attention heads that were measured to look at keys of one kind (`model.heads` of a header).

const LEAST = 0.1; // mean weight under which a pattern is not seen with the eye
const TIMES_UNIFORM = 3; // and how far it must stand out from a head that looks at every key alike

/**
 * The heads worth looking at, the one to open on first; empty where none was measured.
 * @param {import("./trace.js").ModelFacts | undefined} model
 */
export function tellingHeads(model) {
  return (model?.heads ?? []).filter((h) => h.mean_weight >= LEAST && h.mean_weight >= TIMES_UNIFORM * h.uniform);
}
