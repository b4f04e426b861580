// The first script of a site: the modules of a first visit come with it in one file, and become modules under the names
// of an import map; every other module has its own address. On a slow connection a hundred files would come one after
// the other. app/site/first.py puts their texts in front.
(async () => {
  const { nonce } = /** @type {HTMLScriptElement} */ (document.currentScript);
  const given = /** @type {{firstModules: Record<string, string>}} */ (/** @type {unknown} */ (globalThis));
  /** @type {Record<string, string>} */
  const imports = { "page/": new URL("static/", document.baseURI).href };
  for (const [name, text] of Object.entries(given.firstModules))
    imports[name] = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const map = Object.assign(document.createElement("script"), {
    type: "importmap",
    nonce,
    textContent: JSON.stringify({ imports }),
  });
  document.head.append(map);
  const main = "page/js/main.js"; // a name of the import map
  await import(main);
})();
