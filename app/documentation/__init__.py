"""The documentation at /docs, rendered from the Markdown files of docs/ when a page is requested."""
