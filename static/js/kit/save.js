// Download of a text as a file.

/** @param {string} text @param {string} name of the file @param {string} [type] */
export function saveText(text, name, type = "text/csv") {
  const link = Object.assign(document.createElement("a"), {
    href: URL.createObjectURL(new Blob([text], { type })),
    download: name,
  });
  link.click();
  URL.revokeObjectURL(link.href);
}
