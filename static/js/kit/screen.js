// What the page's styles know about the window, for code that must know it too.

/** Whether one region is shown at a time (css/layout.css). */
export const isPhone = () => innerWidth < 720;
