// Attention heads that look at keys of one kind: those that were measured when the model was trained (`model.heads` of
// a header), and how far one must stand out to be told of.

/** @typedef {import("./trace.js").HeadPattern} HeadPattern */

const LEAST = 0.1; // mean weight under which a pattern is not seen with the eye
const TIMES_UNIFORM = 3; // and how far it must stand out from a head that looks at every key alike

/**
 * Whether a head's weights on the keys of a pattern are worth telling of.
 * @param {Pick<HeadPattern, "mean_weight" | "uniform">} measured
 */
export const standsOut = ({ mean_weight, uniform }) => mean_weight >= LEAST && mean_weight >= TIMES_UNIFORM * uniform;

/**
 * The heads worth looking at, the one to open on first; empty where none was measured.
 * @param {import("./trace.js").ModelFacts | undefined} model
 */
export const tellingHeads = (model) => (model?.heads ?? []).filter(standsOut);
