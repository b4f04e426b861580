// Dates in texts of the page.

import { html } from "./html.js";

const DATE = /(\d{4}-\d{2}-\d{2})/;

/** Return a text whose dates do not break at their hyphens. @param {string} text */
export const withDates = (text) =>
  text.split(DATE).map((part, i) => (i % 2 ? html`<span class="date">${part}</span>` : part));
