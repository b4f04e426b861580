// What a header says of its run's settings, as the types that they have. Pure.

/** @typedef {import("./trace.js").Header} Header */

/** Slots of a block. @param {Pick<Header, "engine">} header */
export const blockSize = ({ engine }) => Number(engine.block_size);
