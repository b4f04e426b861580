"""Documentation at /docs, rendered on request from the Markdown files of docs/."""
