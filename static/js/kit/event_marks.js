// Marks of the event kinds, shared by the timeline and the list of events. Kinds differ by shape, not by colour alone.

/**
 * `path`: in a box from -4 to 4; `colour`: palette name; `level`: above (0, 1) or below (2) the line.
 *
 * @typedef {"prompt" | "generated" | "fault" | "k" | "v" | "ink-2"} SignColour
 * @typedef {{path: string, colour: SignColour, filled: boolean, level: 0 | 1 | 2}} EventSign
 */

/** @type {Record<string, EventSign>} by kind of event */
export const SIGNS = {
  submit: { path: "M-4 -3H4L0 3Z", colour: "prompt", filled: true, level: 0 },
  prefill: { path: "M-1.5 -4H1.5V4H-1.5Z", colour: "prompt", filled: true, level: 1 },
  hit: { path: "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0 -3 0Z", colour: "generated", filled: false, level: 1 },
  fork: { path: "M0 4V1L-3 -4M0 1L3 -4", colour: "k", filled: false, level: 0 },
  copy: { path: "M-4 -1.5H1.5V4H-4ZM-1.5 -1.5V-4H4V1.5H1.5", colour: "k", filled: false, level: 2 },
  preempt: { path: "M-4 3H4L0 -4Z", colour: "fault", filled: true, level: 0 },
  swap: { path: "M-4 -2H4M1.5 -4L4 -2L1.5 0M4 2H-4M-1.5 0L-4 2L-1.5 4", colour: "v", filled: false, level: 2 },
  load: { path: "M0 4V-3M-3 0L0 -4L3 0M-4 4H4", colour: "v", filled: false, level: 2 },
  evict: { path: "M-3 -3L3 3M3 -3L-3 3", colour: "ink-2", filled: false, level: 2 },
  finish: { path: "M-3 -3H3V3H-3Z", colour: "generated", filled: true, level: 0 },
};
