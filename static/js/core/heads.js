// Attention heads that specialize in one kind of key, measured at training (`model.heads` of a header), and the
// thresholds for showing them.

/** @typedef {import("./trace.js").HeadPattern} HeadPattern */

const LEAST = 0.1; // minimum mean weight: weaker patterns are not visible
const TIMES_UNIFORM = 3; // minimum ratio to a head with uniform weights

/**
 * Return whether a head's weights on the keys of a pattern are worth showing.
 * @param {Pick<HeadPattern, "mean_weight" | "uniform">} measured
 */
export const standsOut = ({ mean_weight, uniform }) => mean_weight >= LEAST && mean_weight >= TIMES_UNIFORM * uniform;

/**
 * Return the heads worth showing, the default one first; empty if none was measured.
 * @param {import("./trace.js").ModelFacts | undefined} model
 */
export const tellingHeads = (model) => (model?.heads ?? []).filter(standsOut);
