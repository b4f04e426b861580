"""Messages that describe operations, in every language, for the page and the command line.

The texts are in `words.<language>.json`. Under `op`, each type of operation has texts in up to four registers:

    chain   its name, for lists and links
    plain   one sentence without technical terms; default: `short`
    short   one sentence with the most important numbers
    long    the complete message, with every number

It also has *facets*: fields with a fixed set of values (`reason`, `verdict`, `to`, …), and cases that are derived from
fields (`facets.CASES`). Each value of a facet has texts in the same registers. The message of an operation in a
register is the text of its type, followed by the texts of its facets' values. Missing texts are skipped.

Placeholders are the operation's fields, and the values that `facets` derives from its record. The name of a field
determines its format: `*seq_id` is formatted as a sequence's name, block ids as ranges, `num_bytes` with a unit, and
record indices relative to the first record's number. `{n|block|blocks}` selects a form by the number `n`.

The page renders the same texts, and can also summarize several operations (`static/js/core/operations.js`,
`static/js/i18n/operations.js`). `tests/js/test_messages_parity.py` compares both.
"""

from engine.trace.messages.facets import Context, MessageKey, facets_of, messages_of
from engine.trace.messages.words import Register, Voice, content_of, in_language, languages, texts

__all__ = [
    "Context",
    "MessageKey",
    "Register",
    "Voice",
    "content_of",
    "facets_of",
    "in_language",
    "languages",
    "messages_of",
    "texts",
]  # fmt: skip
