"""Files that a browser receives: scripts, style sheets, words, the one-file page."""
