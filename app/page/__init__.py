"""Files that a browser receives: scripts, style sheets, texts, and the page as one file."""
