// Handlers of fields' events: what the field has now goes to a function.

/**
 * @param {(value: string) => void} take
 * @returns {(event: Event) => void}
 */
export const withValue = (take) => (event) => take(/** @type {HTMLInputElement} */ (event.currentTarget).value);

/**
 * @param {(checked: boolean) => void} take
 * @returns {(event: Event) => void}
 */
export const withChecked = (take) => (event) => take(/** @type {HTMLInputElement} */ (event.currentTarget).checked);

/**
 * @param {(input: HTMLInputElement) => void} take
 * @returns {(event: Event) => void}
 */
export const withInput = (take) => (event) => take(/** @type {HTMLInputElement} */ (event.currentTarget));
