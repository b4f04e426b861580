"""Operations as sentences in every language, for the page and the command line.

The texts are in `words.<language>.json`. Under `op`, each type of operation has up to three registers:

    chain   its name, for lists and links
    short   one sentence with the numbers that matter most
    long    the complete message, with every number

and *facets*: fields with a fixed set of values (`reason`, `verdict`, `to`, …) and cases derived from fields
(`facets.CASES`). Each value of a facet has the same registers. An operation's message in a register is the text of its
type, followed by those of its facets' values; a missing text adds nothing.

Placeholders are the operation's fields and the values that `facets` derives from its record. The field's name decides
its format: `*seq_id` is a sequence's name, block ids are ranges, `num_bytes` has a unit, record indices count from the
reader's first. `{n|block|blocks}` chooses by number.

The page renders the same texts (`static/js/core/operations.js`, `static/js/i18n/operations.js`; it can also summarize
several operations); `tests/js/test_messages_parity.py` compares both.
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
