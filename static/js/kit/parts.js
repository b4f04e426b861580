export { Fidelity } from "./fidelity.js";
export { Icon } from "./icon.js";
export { Swatch } from "./swatch.js";
export { Term } from "./term.js";
export { hideTip, showTip, Tooltip, tip, tipAt, tips } from "./tooltip.js";
