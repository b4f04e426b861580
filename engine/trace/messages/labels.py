"""Label of a single token: its text with visible whitespace, or its bytes if they are not text.

`static/js/core/labels.js` mirrors this file, and also labels fragments of a character from the neighbouring tokens.
"""

from __future__ import annotations

VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽", "\u3000": "□"}


def lone_label(token_bytes: bytes) -> str:
    """Return the label of a token: `月`, `␣the`, `∅` for no bytes, `E6 9C` for a fragment of a character."""
    try:
        text = token_bytes.decode("utf-8").removeprefix("\ufeff")  # like browsers
    except UnicodeDecodeError:
        return token_bytes.hex(" ").upper()
    return "".join(VISIBLE.get(c) or (chr(0x2400 + ord(c)) if c < " " else c) for c in text) or "∅"
