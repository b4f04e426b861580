// Where a pointer is inside an element, in the element's own pixels: a page that is presented is enlarged.

/**
 * @param {{clientX: number, clientY: number}} event
 * @param {HTMLElement} element
 */
export function pointIn(event, element) {
  const box = element.getBoundingClientRect();
  const scale = box.width ? element.offsetWidth / box.width : 1;
  return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
}
